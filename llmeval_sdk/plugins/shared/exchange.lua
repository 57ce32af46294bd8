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
    local before = lease.used and lease.used[name]
    local usd_before = lease.used_day == request.day and amount(before, 'usd') or 0
    count(name, math.floor(now), math.max(amount(used, 'calls') - amount(before, 'calls'), 0),
      math.max(amount(used, 'tokens') - amount(before, 'tokens'), 0))
    spend(request.host, name, math.max(amount(used, 'usd') - usd_before, 0), request.day)
  end
  take_charge_back(lease)
  lease.seq, lease.used, lease.used_day = request.seq, request.used, request.day
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
        -- an account that was overspent stops those who want something of it, and nobody else
        if least > 0 and least > left[what] then
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
  local slots = amount(request.kept[''], 'slots')
  lend_instead(lease.kept, request.kept)
  lend('', 'slots', slots - lease.slots)
  lease.kept, lease.slots = request.kept, slots
  if is_done and not request.leave then
    find_homes()
    reply.granted, reply.refused = grant()
    for name, more in pairs(reply.granted) do
      lease.kept[name] = lease.kept[name] or {}
      for _, what in ipairs(LEASED) do
        lease.kept[name][what] = amount(lease.kept[name], what) + amount(more, what)
        lend(name, what, amount(more, what))
      end
      lease.slots = lease.slots + amount(more, 'slots')
      lend('', 'slots', amount(more, 'slots'))
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
  local missing, reports = awaited()
  if request.look then
    reply.hosts = redis.call('HKEYS', HOSTS)
  elseif is_past() or (now >= began + request.rebuild and #missing == 0) then
    open(reports)
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
    local entry = entry_of(request.host)
    entry.seen, entry.report = now, nil
    reply.status = 'open'
    exchange(reply)
    for _, of in pairs(books) do forget_old_seconds(of) end
    for _, of in pairs(groups) do forget_old_seconds(of) end
  end
end
reply.generation = generation
if next(taken) then reply.taken = taken end
if not request.look then save() end
return cjson.encode(reply)
