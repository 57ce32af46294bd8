-- leases -------------------------------------------------------------------------------------

-- Lends what a holder keeps, in the place of what it kept before.
local function lend_instead(before, kept)
  for _, names in ipairs({before, kept}) do
    for name, _ in pairs(names) do
      for _, what in ipairs(LEASED) do
        if names == before or not before[name] then
          lend(name, what, amount(kept[name], what) - amount(before[name], what))
        end
      end
    end
  end
end

local function charge(lease)
  lend_instead(lease.kept, {})
  lease.charged = {}
  for name, kept in pairs(lease.kept) do
    count(name, math.floor(lease.ends), amount(kept, 'calls'), amount(kept, 'tokens'))
    spend(lease.host, name, amount(kept, 'usd'), lease.day)
    lease.charged[name] = kept
  end
  lease.kept = {}
end

local function take_charge_back(lease)
  for name, charged in pairs(lease.charged or {}) do
    spend(lease.host, name, -amount(charged, 'usd'), lease.day)
    local key = string.format('%d', math.floor(lease.ends))
    if account(name).seconds[key] then
      count(name, math.floor(lease.ends), -amount(charged, 'calls'), -amount(charged, 'tokens'))
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
      lend('', 'slots', -lease.slots)
      lease.slots, lease.stage = 0, 'over'
      redis.call('ZADD', ENDS, now + DAY, holder)
      write(LEASES, holder, lease)
    end
  end
  return #ended < ENDED_AT_ONCE
end
