-- One budget for all hosts. All of it is this script: it runs alone in Redis, on Redis' clock.
--
-- A *holder* (one process) holds a *lease*: amounts that it may use until the lease ends. What is
-- leased counts as used by nobody and free for nobody. With each exchange the holder says what it
-- used in all, what it keeps, and what it wants more; so a request that is lost, repeated or late
-- can be told from its number, and changes nothing twice. A lease that ends without a word is
-- charged in full, and corrected when its holder comes back.
--
-- A *generation* is one life of the data: until the data are gone, or the server was restarted and
-- may have lost its last writes. A new generation is closed until the hosts have reported what they
-- spent today: every host keeps books of its own on disk.
--
-- Amounts: calls, tokens, usd (millionths of a dollar), slots (calls at a time). All are whole.
-- KEYS: state, leases, ends (holder by the end of its lease), hosts. ARGV[1]: the request as JSON.

local MINUTE, DAY = 60, 86400
local LIVE = 60          -- seconds after which a silent host without a lease has left
local ENDED_AT_ONCE = 500 -- leases that are ended in one call at most
local SNAPSHOT = 2       -- seconds for which a list of the live hosts is used again
local STATE, LEASES, ENDS, HOSTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local AMOUNTS = {'calls', 'tokens', 'usd', 'slots'}

local request = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local today = math.floor(now / DAY)

local function amount(of, what)
  local number = of and of[what]
  if number == nil or number == cjson.null then return 0 end
  return number
end

local function limit_of(limits, what)
  local number = limits[what]
  if number == cjson.null then return nil end
  return number
end

local function read(key, field)
  local text = redis.call('HGET', key, field)
  return text and cjson.decode(text) or nil
end

local function write(key, field, value)
  redis.call('HSET', key, field, cjson.encode(value))
end

-- the books ----------------------------------------------------------------------------------

local books

local function account(name)
  if not books[name] then
    books[name] = {usd = 0, day = today, seconds = {}, out = {}}
  end
  local found = books[name]
  if found.day ~= today then found.day, found.usd = today, 0 end
  return found
end

local function count(of, second, calls, tokens)
  if calls == 0 and tokens == 0 then return end
  local key = string.format('%d', second)
  local use = of.seconds[key] or {0, 0}
  of.seconds[key] = {math.max(use[1] + calls, 0), math.max(use[2] + tokens, 0)}
end

local function lend(of, what, number)
  of.out[what] = math.max(amount(of.out, what) + number, 0)
end

-- A minute counts every second that it touches, even in part.
local function recent(of, place, window)
  local total, oldest = 0, nil
  for second, use in pairs(of.seconds) do
    local at = tonumber(second)
    if at + 1 + window > now and use[place] > 0 then
      total = total + use[place]
      if not oldest or at < oldest then oldest = at end
    end
  end
  return total, oldest
end

local function forget_old_seconds(window)
  for _, of in pairs(books) do
    for second, _ in pairs(of.seconds) do
      if tonumber(second) + 1 + math.max(window, MINUTE) <= now then of.seconds[second] = nil end
    end
  end
end

local function spend(host, name, usd, day)
  if usd == 0 or day ~= today then return end
  local of = account(name)
  of.usd = math.max(of.usd + usd, 0)
  local entry = read(HOSTS, host) or {seen = now, day = today, spent = {}}
  if entry.day ~= today then entry.day, entry.spent = today, {} end
  entry.spent[name] = math.max(amount(entry.spent, name) + usd, 0)
  write(HOSTS, host, entry)
end

-- leases -------------------------------------------------------------------------------------

local function charge(lease)
  lease.charged = {}
  for name, kept in pairs(lease.kept) do
    local of = account(name)
    for _, what in ipairs({'calls', 'tokens', 'usd'}) do lend(of, what, -amount(kept, what)) end
    count(of, math.floor(lease.ends), amount(kept, 'calls'), amount(kept, 'tokens'))
    spend(lease.host, name, amount(kept, 'usd'), lease.day)
    lease.charged[name] = kept
  end
  lease.kept = {}
end

local function take_charge_back(lease)
  for name, charged in pairs(lease.charged or {}) do
    spend(lease.host, name, -amount(charged, 'usd'), lease.day)
    local of, key = account(name), string.format('%d', math.floor(lease.ends))
    if of.seconds[key] then
      count(of, math.floor(lease.ends), -amount(charged, 'calls'), -amount(charged, 'tokens'))
    end
  end
  lease.charged = nil
end

-- Calls that were under way when a lease ended keep their slots for as long as a call may take.
local function end_leases()
  local ended = redis.call('ZRANGEBYSCORE', ENDS, '-inf', now, 'LIMIT', 0, ENDED_AT_ONCE)
  for _, holder in ipairs(ended) do
    local lease = read(LEASES, holder)
    if not lease or lease.stage == 'over' then
      redis.call('HDEL', LEASES, holder)
      redis.call('ZREM', ENDS, holder)
    elseif lease.stage == 'lent' then
      charge(lease)
      lease.stage = 'calling'
      redis.call('ZADD', ENDS, lease.ends + lease.longest, holder)
      write(LEASES, holder, lease)
    else
      lend(account(''), 'slots', -lease.slots)
      lease.slots, lease.stage = 0, 'over'
      redis.call('ZADD', ENDS, now + DAY, holder)
      write(LEASES, holder, lease)
    end
  end
  return #ended < ENDED_AT_ONCE
end

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
  redis.call('DEL', LEASES, ENDS, HOSTS)
  redis.call('HSET', LEASES, 'begun', 'null') -- so that a key that was evicted is missed
  redis.call('ZADD', ENDS, '+inf', 'begun')
  generation = run .. '-' .. time[1] .. '.' .. time[2]
  began, ready, best, books = now, false, known, {}
  redis.call('HDEL', STATE, 'snapshot')
  redis.call('HSET', STATE, 'generation', generation, 'run', run, 'began', tostring(time[1]),
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
  local stored = redis.call('HMGET', STATE, 'generation', 'run', 'began', 'ready', 'books', 'best')
  best = stored[6] and stored[6] ~= 'null' and cjson.decode(stored[6]) or nil
  local is_whole = redis.call('EXISTS', LEASES, ENDS) == 2
    and (stored[4] ~= '1' or redis.call('EXISTS', HOSTS) == 1)
  if not stored[1] or stored[2] ~= run or not is_whole then
    if request.look then return false end
    begin(run, stored[1] and remembered() or nil)
  else
    generation, began, ready = stored[1], tonumber(stored[3]), stored[4] == '1'
    books = cjson.decode(stored[5])
  end
  return true
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
    if report.day == today then entry.spent[name] = amount(used, 'usd') end
    if ready then
      local of = account(name)
      if report.day == today then of.usd = of.usd + amount(used, 'usd') end
      count(of, math.floor(now), amount(used, 'calls'), amount(used, 'tokens'))
    end
  end
  write(HOSTS, request.host, entry)
end

-- The hosts whose leases of the generation before may have been used since they reported.
local function awaited()
  local final = began + request.lease + 2 -- `began` is cut to whole seconds
  local missing, entries = {}, {}
  local all = redis.call('HGETALL', HOSTS)
  for i = 1, #all, 2 do
    entries[all[i]] = cjson.decode(all[i + 1])
    if entries[all[i]].reported < final then missing[#missing + 1] = all[i] end
  end
  for _, host in ipairs(best and best.live or {}) do
    local is_forgotten = redis.call('HEXISTS', STATE, 'forgotten:' .. host) == 1
    if not entries[host] and not is_forgotten then missing[#missing + 1] = host end
  end
  return missing, entries
end

local function open(entries)
  books = {}
  for _, entry in pairs(entries) do
    for name, used in pairs(entry.report) do
      local of = account(name)
      if entry.day == today then of.usd = of.usd + amount(used, 'usd') end
      count(of, math.floor(now), amount(used, 'calls'), amount(used, 'tokens'))
    end
  end
  if best and best.day == today then
    for name, usd in pairs(best.left) do
      local of = account(name)
      of.usd = of.usd + usd
    end
  end
  ready = true
  local version = tonumber(redis.call('HGET', STATE, 'version') or '0')
  redis.call('HSET', STATE, 'ready', '1', 'version',
    string.format('%d', math.max(version, best and best.version or 0) + 1))
end

local function has_limit_in_dollars()
  for _, limits in pairs(request.limits) do
    if limit_of(limits, 'usd') then return true end
  end
  return false
end

-- Nothing that was used before this generation counts any more: another day, no limit in dollars.
local function is_past()
  local other_day = math.floor(began / DAY) ~= today
  return (other_day or not has_limit_in_dollars()) and now > began + request.lease + 2 * MINUTE
end

-- the exchange -------------------------------------------------------------------------------

local function room(name, limits)
  local of = account(name)
  local left, wait = {}, {}
  local most, window = limit_of(limits, 'calls'), amount(limits, 'window')
  if most then
    local used, oldest = recent(of, 1, window)
    left.calls = most - used - amount(of.out, 'calls')
    wait.calls = oldest and oldest + 1 + window - now or 1
  end
  most = limit_of(limits, 'tokens')
  if most then
    local used, oldest = recent(of, 2, MINUTE)
    left.tokens = most - used - amount(of.out, 'tokens')
    wait.tokens = oldest and oldest + 1 + MINUTE - now or 1
  end
  most = limit_of(limits, 'usd')
  if most then
    left.usd = most - of.usd - amount(of.out, 'usd')
    wait.usd = (today + 1) * DAY - now
  end
  most = limit_of(limits, 'slots')
  if most then
    left.slots = most - amount(of.out, 'slots')
    wait.slots = 0.05
  end
  return left, wait
end

local function settle(lease)
  for name, used in pairs(request.used) do
    local of, before = account(name), lease.used and lease.used[name]
    local usd_before = lease.used_day == request.day and amount(before, 'usd') or 0
    count(of, math.floor(now), math.max(amount(used, 'calls') - amount(before, 'calls'), 0),
      math.max(amount(used, 'tokens') - amount(before, 'tokens'), 0))
    spend(request.host, name, math.max(amount(used, 'usd') - usd_before, 0), request.day)
  end
  take_charge_back(lease)
  for name, kept in pairs(lease.kept) do
    for _, what in ipairs({'calls', 'tokens', 'usd'}) do
      lend(account(name), what, -amount(kept, what))
    end
  end
  lend(account(''), 'slots', -lease.slots)
end

local function grant()
  local holders = redis.call('ZCOUNT', ENDS, now, now + request.lease)
  local refused, share = nil, 2 * math.max(holders, 1)
  local more = {}
  for name, limits in pairs(request.limits) do
    local left, wait = room(name, limits)
    local want, ahead = request.want[name], request.ahead[name]
    more[name] = {}
    for _, what in ipairs(AMOUNTS) do
      if left[what] then
        local least = amount(want, what)
        if least > left[what] then
          local never = least > limits[what]
          if not refused or never then
            refused = {account = name, what = what, wait = not never and wait[what] or nil}
          end
        else
          local spare = math.floor((left[what] - least) / share)
          more[name][what] = least + math.max(math.min(amount(ahead, what), spare), 0)
        end
      end
    end
  end
  if refused then return {}, refused end
  return more, nil
end

local function exchange(reply)
  local is_done = end_leases()
  local lease = read(LEASES, request.holder)
    or {seq = 0, kept = {}, slots = 0, stage = 'lent', host = request.host}
  if request.seq <= lease.seq then
    reply.status = 'late'
    return
  end
  settle(lease)
  lease.seq, lease.used, lease.used_day = request.seq, request.used, request.day
  lease.kept, lease.slots = {}, amount(request.kept[''], 'slots')
  for name, kept in pairs(request.kept) do
    lease.kept[name] = {}
    for _, what in ipairs({'calls', 'tokens', 'usd'}) do
      lease.kept[name][what] = amount(kept, what)
      lend(account(name), what, amount(kept, what))
    end
  end
  lend(account(''), 'slots', lease.slots)
  if is_done and not request.leave then
    reply.granted, reply.refused = grant()
    for name, more in pairs(reply.granted) do
      lease.kept[name] = lease.kept[name] or {}
      for _, what in ipairs({'calls', 'tokens', 'usd'}) do
        lease.kept[name][what] = amount(lease.kept[name], what) + amount(more, what)
        lend(account(name), what, amount(more, what))
      end
      lease.slots = lease.slots + amount(more, 'slots')
      lend(account(''), 'slots', amount(more, 'slots'))
    end
  end
  lease.ends = math.min(now + request.lease, (today + 1) * DAY)
  lease.day, lease.stage, lease.longest = today, 'lent', request.longest
  reply.ends = lease.ends
  if request.leave and lease.slots == 0 then
    redis.call('HDEL', LEASES, request.holder)
    redis.call('ZREM', ENDS, request.holder)
    return
  end
  write(LEASES, request.holder, lease)
  redis.call('ZADD', ENDS, lease.ends, request.holder)
end

local function look(reply)
  reply.left, reply.used = {}, {}
  for name, limits in pairs(request.limits) do
    local of = account(name)
    reply.left[name] = room(name, limits)
    local calls, tokens = recent(of, 1, MINUTE), recent(of, 2, MINUTE)
    reply.used[name] = {calls = calls, tokens = tokens, usd = of.usd, out = of.out}
  end
  reply.holders = redis.call('ZCOUNT', ENDS, now, '(+inf')
end

if not load() then return cjson.encode({status = 'unused', now = now, day = today}) end
if request.report then take_report(request.report) end
local reply = {now = now, day = today}
if not ready then
  local missing, entries = awaited()
  if request.look then
    reply.hosts = redis.call('HKEYS', HOSTS)
  elseif is_past() or (now >= began + request.rebuild and #missing == 0) then
    open(entries)
  end
  if not ready then
    reply.status, reply.awaited = 'closed', missing
    reply.opens_in = math.max(began + request.rebuild - now, 0)
  end
end
if ready then
  reply.known = snapshot()
  if request.look then
    reply.status = 'open'
    look(reply)
  elseif request.generation ~= generation or redis.call('HEXISTS', HOSTS, request.host) == 0 then
    reply.status = 'report'
  else
    local entry = read(HOSTS, request.host)
    entry.seen = now
    write(HOSTS, request.host, entry)
    reply.status = 'open'
    exchange(reply)
    forget_old_seconds(request.longest_window)
  end
end
reply.generation = generation
if not request.look then redis.call('HSET', STATE, 'books', cjson.encode(books)) end
return cjson.encode(reply)
