-- claim FINAL [KIND ID NUMBER CLIENT MODEL]...: what a replica holds that is not known here.
--
-- KIND is 'lease' or 'ticket'; a replica claims its leases first. A lease that has lapsed is given
-- back if its slot is still free, or if nobody has been granted yet in this epoch.
-- Answers the leases that are lost.
if not registered() then
  return UNKNOWN
end
set('last', now)
local lost = {}

local function claim_lease(id, number, client, model)
  if redis.call('ZSCORE', LEASES, id) then
    redis.call('ZADD', LEASES, whole(now + lease), id)
  elseif hold() > 0 or redis.call('ZCARD', LEASES) < number_of('slots') then
    if redis.call('HEXISTS', TICKETS, id) == 0 then
      enter(id, number, client, model)
    end
    grant(id)
  else
    lost[#lost + 1] = id
  end
end

for index = FIRST + 1, #ARGV, 5 do
  local kind, id, number, client, model = unpack(ARGV, index, index + 4)
  if kind == 'lease' then
    claim_lease(id, tonumber(number), client, model)
  elseif redis.call('HEXISTS', TICKETS, id) == 0 then
    enter(id, tonumber(number), client, model)
  end
end
if ARGV[FIRST] == '1' then
  arrived(replica)
end
return done('ok', lost)
