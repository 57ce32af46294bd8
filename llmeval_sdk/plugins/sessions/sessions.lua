-- The sessions of all hosts: their turns, and which process evaluates which.
--
-- KEYS: the sessions by when they are due; that nobody may take one; when these data began.
-- ARGV: the request. All times here are milliseconds by the clock of this server.
--
-- A session is a hash (id, period, opened, active, due, cut, bytes, evaluated, target, owner, lease)
-- beside a sorted set of its turns by their start. `due` is '' once it was evaluated, and `evaluated`
-- says how many turns it had then.

local DUE, HOLD, BORN = KEYS[1], KEYS[2], KEYS[3]
local request = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local commands = {}

local function key(name) return request.prefix .. name end
local function text(number) return string.format('%.0f', number) end

local function read(name)
  local state, all = {}, redis.call('HGETALL', key(name))
  for i = 1, #all, 2 do state[all[i]] = all[i + 1] end
  return state
end

local function number(state, field) return tonumber(state[field] or '') or 0 end
local function is_open(state) return (state.due or '') ~= '' end

-- All turns that a session ever had.
local function count(name, state)
  return redis.call('ZCARD', key(name) .. '.turns') + number(state, 'cut')
end

-- A session may be taken when it is due and nobody has it.
local function enter(name, due, lease)
  redis.call('ZADD', DUE, text(math.max(due, lease)), name)
end

-- Which data these are: another word after they were lost, or after a restart, which may have
-- taken the latest of them.
function commands.hello()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local born = redis.call('GET', BORN)
  if not born then
    born = time[1] .. '.' .. time[2]
    redis.call('SET', BORN, born)
    redis.call('SET', HOLD, 1, 'PX', request.hold)
  end
  return {which = run .. ':' .. born, seconds = time[1], microseconds = time[2]}
end

-- Add turns of a session. Turns that are there already change nothing.
function commands.share()
  local name = request.name
  local session, turns = key(name), key(name) .. '.turns'
  local state = read(name)
  local bytes, added = number(state, 'bytes'), 0
  for _, turn in ipairs(request.turns) do
    if redis.call('ZADD', turns, 'NX', turn[1], turn[2]) == 1 then
      added, bytes = added + 1, bytes + #turn[2]
    end
  end
  local cut = state.period and number(state, 'cut') or request.cut
  local many = redis.call('ZCARD', turns)
  if not is_open(state) and (added == 0 or many + cut <= number(state, 'evaluated')) then
    if added > 0 then redis.call('HSET', session, 'bytes', text(bytes)) end
    return {} -- there is nothing new to evaluate
  end
  local opened, target = number(state, 'opened'), state.target
  if not is_open(state) then
    opened, target = now, nil
    if not state.period then opened = now - request.opened end
  end
  while many > 1 and (many > request.most or bytes > request.most_bytes) do
    local place = math.min(request.first, many - 1)
    local oldest = redis.call('ZRANGE', turns, place, place)[1]
    redis.call('ZREM', turns, oldest)
    cut, many, bytes = cut + 1, many - 1, bytes - #oldest
  end
  local known = target and cjson.decode(target)
  local new = request.target
  if new and (not known or new.top > known.top
      or (new.top == known.top and tonumber(new['end']) >= tonumber(known['end']))) then
    target = cjson.encode(new)
  end
  local active = math.max(number(state, 'active'), now - request.active)
  local due = math.min(active + request.idle, opened + math.max(request.longest, request.idle))
  redis.call('HSET', session, 'id', request.id, 'opened', text(opened), 'active', text(active),
    'due', text(due), 'cut', text(cut), 'bytes', text(bytes), 'target', target or '',
    'period', text(math.max(number(state, 'period'), request.period)))
  enter(name, due, number(state, 'lease'))
  redis.call('PEXPIRE', session, request.kept)
  redis.call('PEXPIRE', turns, request.kept)
  return {}
end

-- Say what a host remembers of a session that was evaluated: Redis may have gone back to before.
function commands.remind()
  local name, state = request.name, read(request.name)
  if not state.period or number(state, 'period') >= request.period then return {} end
  redis.call('HSET', key(name), 'period', text(request.period), 'owner', '', 'lease', '')
  if number(state, 'active') <= now - request.active + request.slack then
    redis.call('HSET', key(name), 'due', '', 'evaluated', text(count(name, state)))
    redis.call('ZREM', DUE, name)
  end
  return {}
end

function commands.take()
  local taken = {}
  if redis.call('EXISTS', HOLD) == 1 then return {taken = taken} end
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, request.most)) do
    local state = read(name)
    if is_open(state) then
      redis.call('HSET', key(name), 'owner', request.owner, 'lease', text(now + request.lease))
      enter(name, 0, now + request.lease)
      state.name, state.count = name, text(count(name, state))
      taken[#taken + 1] = state
    else
      redis.call('ZREM', DUE, name) -- it expired
    end
  end
  return {taken = taken}
end

-- Keep what was taken; names what somebody else has by now.
function commands.renew()
  local lost = {}
  for _, name in ipairs(request.names) do
    if redis.call('HGET', key(name), 'owner') == request.owner then
      redis.call('HSET', key(name), 'lease', text(now + request.lease))
      enter(name, 0, now + request.lease)
    else
      lost[#lost + 1] = name
    end
  end
  return {lost = lost}
end

function commands.release()
  for _, name in ipairs(request.names) do
    local state = read(name)
    if state.owner == request.owner then
      redis.call('HSET', key(name), 'owner', '', 'lease', '')
      if is_open(state) then enter(name, number(state, 'due'), 0) end
    end
  end
  return {}
end

-- Note sessions as evaluated. One that went on meanwhile stays due, and its day begins anew. Of one
-- that was lost meanwhile, what the hosts tell again is nothing new.
function commands.done()
  local noted = {}
  for _, one in ipairs(request.sessions) do
    local name, state = one.name, read(one.name)
    local owner = state.owner or ''
    if not state.period or (number(state, 'period') == one.period
        and (owner == request.owner or owner == '')) then
      local due, active = '', state.active or one.active
      if is_open(state) and count(name, state) > tonumber(one.count) then
        due = text(tonumber(active) + request.idle)
        redis.call('ZADD', DUE, due, name)
      else
        redis.call('ZREM', DUE, name)
      end
      redis.call('HSET', key(name), 'period', text(one.period + 1), 'owner', '', 'lease', '',
        'active', active, 'opened', active, 'due', due, 'evaluated', one.count)
      redis.call('PEXPIRE', key(name), request.kept)
      noted[#noted + 1] = name
    end
  end
  return {noted = noted}
end

-- Drop what nobody can read.
function commands.drop()
  for _, name in ipairs(request.names) do
    redis.call('DEL', key(name), key(name) .. '.turns')
    redis.call('ZREM', DUE, name)
  end
  return {}
end

-- What became of sessions that a host knows as open.
function commands.look()
  local states = {}
  for place, name in ipairs(request.names) do
    local state = read(name)
    states[place] = {
      known = state.period ~= nil, period = state.period or '', due = state.due or '',
      active = state.active or '',
    }
  end
  return {states = states}
end

return cjson.encode(commands[request.command]())
