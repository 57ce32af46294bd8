-- groups -------------------------------------------------------------------------------------

-- The accounts of a budget for each group begin with its *prefix*. It has `most` of them that were
-- used since yesterday; all further groups share its *pool*. Once a group has to, there are no more
-- accounts until midnight, also after a rebuild: so none spends its money in two accounts, and a
-- process that was told which there are does not ask for others that day.
local taken = {} -- their names by prefix, where this call found no room for another

local function prefix_of(name)
  local longest
  for prefix, _ in pairs(request.groups or {}) do
    local fits = string.sub(name, 1, #prefix) == prefix
    if fits and (not longest or #prefix > #longest) then longest = prefix end
  end
  return longest
end

local function is_there(name)
  return books[name] ~= nil or groups[name] ~= nil
    or redis.call('HEXISTS', GROUPS, name) == 1
end

local function has_spent(name)
  return is_there(name) and account(name).usd > 0
end

local function is_idle(of)
  forget_old_seconds(of)
  for _, number in pairs(of.out) do
    if number > 0 then return false end
  end
  return of.latest < today - 1 and next(of.seconds) == nil
end

-- Removes once a day what nobody used since yesterday.
local function sweep()
  local is_empty = true
  for _, name in ipairs(redis.call('HKEYS', GROUPS)) do
    local goes = is_idle(account(name))
    if goes then redis.call('HDEL', GROUPS, name) end
    is_empty, groups[name] = is_empty and goes, nil
  end
  if is_empty then
    redis.call('HDEL', STATE, 'groups')
  else
    redis.call('HSET', STATE, 'groups', today)
  end
end

local function has_room(prefix, group)
  local own = {}
  for _, name in ipairs(redis.call('HKEYS', GROUPS)) do
    if name ~= group.pool and string.sub(name, 1, #prefix) == prefix then own[#own + 1] = name end
  end
  if #own < group.most and not has_spent(group.pool) then return true end
  taken[prefix] = own
  return false
end

-- The account that a group uses. One that gets an account at midnight may have used that of all
-- others a moment ago: it begins with what all of them used, so that no minute has too much.
local function home_of(name)
  local prefix = prefix_of(name)
  local pool = prefix and request.groups[prefix].pool
  if not pool or name == pool or is_there(name) then return name end
  if not has_room(prefix, request.groups[prefix]) then return pool end
  local of = account(name)
  if is_there(pool) then
    local others = account(pool)
    for second, use in pairs(others.seconds) do of.seconds[second] = {use[1], use[2]} end
    count(name, math.floor(now), amount(others.out, 'calls'), amount(others.out, 'tokens'))
  end
  write(GROUPS, name, of) -- so that it is among them from now on
  return name
end

-- Adds the limits of the groups that want something, at the accounts that they use.
local function find_homes()
  local homes = {}
  for _, asked in ipairs({request.want, request.ahead}) do
    for name, _ in pairs(asked) do
      if not request.limits[name] and prefix_of(name) then homes[name] = home_of(name) end
    end
  end
  for name, home in pairs(homes) do
    request.limits[home] = request.groups[prefix_of(name)]
    if home ~= name then
      request.want[home], request.want[name] = request.want[name], nil
    end
  end
end
