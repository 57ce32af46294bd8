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
