-- One budget for all hosts. All of it is one script, which runs alone in Redis and on Redis' clock.
-- `limiter.py` puts it together: books, leases, groups, generations and exchange, in this order.
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
-- KEYS: state, leases, ends (holder by the end of its lease), hosts, groups (account by name).
-- ARGV[1]: the request as JSON.

local MINUTE, DAY = 60, 86400
local LIVE = 60          -- seconds after which a silent host without a lease has left
local ENDED_AT_ONCE = 500 -- leases that are ended in one call at most
local SNAPSHOT = 2       -- seconds for which a list of the live hosts is used again
local STATE, LEASES, ENDS, HOSTS, GROUPS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local AMOUNTS = {'calls', 'tokens', 'usd', 'slots'}
local LEASED = {'calls', 'tokens', 'usd'} -- slots are kept for the holder as a whole

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

-- The accounts of all judges and of single ones are one text in the state. Those of groups may be
-- many: they stand by themselves, and only those are read that a call is about.
local books, groups, entries = {}, {}, {}
local is_of_judges = {}
for name, _ in pairs(request.limits) do is_of_judges[name] = true end

local function account(name)
  local found = books[name] or groups[name] or read(GROUPS, name)
    or {usd = 0, day = today, latest = today, seconds = {}, out = {}}
  if not books[name] then
    (is_of_judges[name] and books or groups)[name] = found
  end
  if found.day ~= today then found.day, found.usd = today, 0 end
  return found
end

local function entry_of(host)
  entries[host] = entries[host] or read(HOSTS, host) or {seen = now, day = today, spent = {}}
  return entries[host]
end

local function save()
  redis.call('HSET', STATE, 'books', cjson.encode(books))
  if next(groups) then redis.call('HSET', STATE, 'groups', today) end
  for name, of in pairs(groups) do write(GROUPS, name, of) end
  for host, entry in pairs(entries) do write(HOSTS, host, entry) end
end

local function count(name, second, calls, tokens)
  if calls == 0 and tokens == 0 then return end
  local of = account(name)
  local key = string.format('%d', second)
  local use = of.seconds[key] or {0, 0}
  of.seconds[key] = {math.max(use[1] + calls, 0), math.max(use[2] + tokens, 0)}
end

local function lend(name, what, number)
  if number == 0 then return end -- most accounts of a lease: they are not even read
  local of = account(name)
  if number > 0 then of.latest = today end
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

local function forget_old_seconds(of)
  for second, _ in pairs(of.seconds) do
    local window = math.max(request.longest_window, MINUTE)
    if tonumber(second) + 1 + window <= now then of.seconds[second] = nil end
  end
end

local function spend(host, name, usd, day)
  if usd == 0 or day ~= today then return end
  local of, entry = account(name), entry_of(host)
  of.usd = math.max(of.usd + usd, 0)
  if entry.day ~= today then entry.day, entry.spent = today, {} end
  entry.spent[name] = math.max(amount(entry.spent, name) + usd, 0)
end
