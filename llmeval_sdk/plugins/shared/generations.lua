-- generations --------------------------------------------------------------------------------

local generation, began, ready
local best -- what is known of the hosts of the generation before

-- Who is here, and what those spent today who have left: what the hosts remember for a rebuild.
local function snapshot()
  local taken = read(STATE, 'snapshot')
  if taken and now - taken.at < SNAPSHOT then return taken end
  local live, left = {}, {}
  local all = redis.call('HGETALL', HOSTS)
  for i = 1, #all, 2 do
    local entry = cjson.decode(all[i + 1])
    if entry.seen > now - LIVE then
      live[#live + 1] = all[i]
    elseif entry.day == today then
      for name, usd in pairs(entry.spent or {}) do left[name] = amount(left, name) + usd end
    elseif entry.seen < now - DAY then
      redis.call('HDEL', HOSTS, all[i])
    end
  end
  local version = redis.call('HINCRBY', STATE, 'version', 1)
  taken = {
    at = now, day = today, generation = generation, version = version, live = live, left = left,
  }
  write(STATE, 'snapshot', taken)
  return taken
end

local function begin(run, known)
  redis.call('DEL', LEASES, ENDS, HOSTS, GROUPS)
  redis.call('HSET', LEASES, 'begun', 'null') -- so that a key that was evicted is missed
  redis.call('ZADD', ENDS, '+inf', 'begun')
  generation = run .. '-' .. time[1] .. '.' .. time[2]
  began, ready, best, books, groups, entries = now, false, known, {}, {}, {}
  redis.call('HDEL', STATE, 'snapshot', 'groups')
  redis.call('HSET', STATE, 'generation', generation, 'run', run, 'began', string.format('%.4f', now),
    'ready', '0', 'books', '{}', 'best', known and cjson.encode(known) or 'null')
end

local function is_newer(one, other)
  return one and (not other or one.version > other.version)
end

-- What data that may lack their last writes still say of the hosts.
local function remembered()
  if redis.call('HGET', STATE, 'ready') == '1' then return read(STATE, 'snapshot') end
  local known = best or {version = 0, day = today, live = {}, left = {}}
  for _, host in ipairs(redis.call('HKEYS', HOSTS)) do known.live[#known.live + 1] = host end
  return known
end

-- Returns false where there are no data of this life of the server, and it may only look at them.
local function load()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local stored = redis.call('HMGET', STATE, 'generation', 'run', 'began', 'ready', 'books', 'best',
    'groups')
  best = stored[6] and stored[6] ~= 'null' and cjson.decode(stored[6]) or nil
  local is_whole = redis.call('EXISTS', LEASES, ENDS) == 2
    and (stored[4] ~= '1' or redis.call('EXISTS', HOSTS) == 1)
    and (not stored[7] or redis.call('EXISTS', GROUPS) == 1)
  if not stored[1] or stored[2] ~= run or not is_whole then
    if request.look then return false end
    begin(run, stored[1] and remembered() or nil)
  else
    generation, began, ready = stored[1], tonumber(stored[3]), stored[4] == '1'
    books = cjson.decode(stored[5])
    if stored[7] and tonumber(stored[7]) ~= today and not request.look then sweep() end
  end
  return true
end

local function add(name, used, day)
  local of = account(name)
  if day == today then of.usd = of.usd + amount(used, 'usd') end
  count(name, math.floor(now), amount(used, 'calls'), amount(used, 'tokens'))
end

local function is_nothing(used)
  return amount(used, 'calls') + amount(used, 'tokens') + amount(used, 'usd') == 0
end

local function take_report(report)
  local is_of_before = report.known and report.known.generation ~= generation
  if is_of_before and is_newer(report.known, best) then
    if ready then -- hosts that were cut off know of others that nobody has counted
      local run = redis.call('HGET', STATE, 'run')
      local known, here = report.known, snapshot()
      known.version = math.max(known.version, here.version) + 1
      for _, host in ipairs(here.live) do known.live[#known.live + 1] = host end
      for name, usd in pairs(here.left) do known.left[name] = amount(known.left, name) + usd end
      begin(run, known)
    else
      best = report.known
      write(STATE, 'best', best)
    end
  end
  local entry = read(HOSTS, request.host)
  if ready and entry and entry.reported then return end
  entry = {seen = now, reported = now, day = report.day, spent = {}, report = report.used}
  for name, used in pairs(report.used) do
    if not is_nothing(used) then
      local home = ready and home_of(name) or name
      if report.day == today then
        entry.spent[home] = amount(entry.spent, home) + amount(used, 'usd')
      end
      if ready then add(home, used, report.day) end
    end
  end
  write(HOSTS, request.host, entry)
end

-- The hosts whose leases of the generation before may have been used since they reported.
local function awaited()
  local final = began + request.lease + 1
  local missing, reports = {}, {}
  local all = redis.call('HGETALL', HOSTS)
  for i = 1, #all, 2 do
    reports[all[i]] = cjson.decode(all[i + 1])
    if reports[all[i]].reported < final then missing[#missing + 1] = all[i] end
  end
  for _, host in ipairs(best and best.live or {}) do
    local is_forgotten = redis.call('HEXISTS', STATE, 'forgotten:' .. host) == 1
    if not reports[host] and not is_forgotten then missing[#missing + 1] = host end
  end
  return missing, reports
end

local function open(reports)
  for _, entry in pairs(reports) do
    for name, used in pairs(entry.report) do add(name, used, entry.day) end
  end
  if best and best.day == today then
    for name, usd in pairs(best.left) do
      local of = account(name)
      of.usd = of.usd + usd
    end
  end
  save()
  ready = true
  local version = tonumber(redis.call('HGET', STATE, 'version') or '0')
  redis.call('HSET', STATE, 'ready', '1', 'version',
    string.format('%d', math.max(version, best and best.version or 0) + 1))
end

local function has_limit_in_dollars()
  for _, limits in pairs(request.limits) do
    if limit_of(limits, 'usd') then return true end
  end
  for _, group in pairs(request.groups or {}) do
    if limit_of(group, 'usd') then return true end
  end
  return false
end

-- Nothing that was used before this generation counts any more: another day, no limit in dollars.
local function is_past()
  local other_day = math.floor(began / DAY) ~= today
  local past = request.lease + MINUTE + math.max(request.longest_window, MINUTE)
  return (other_day or not has_limit_in_dollars()) and now > began + past
end
