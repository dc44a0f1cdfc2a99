-- beat [ID]...: a sign of life of the replica and of the leases it holds.
-- Answers those that it holds no longer.
if not state.epoch then
  return UNKNOWN
end
notice_silence()
if not registered() then
  return UNKNOWN
end
local lost = {}
for index = FIRST, #ARGV do
  local id = ARGV[index]
  if redis.call('ZSCORE', LEASES, id) then
    redis.call('ZADD', LEASES, whole(now + lease), id)
  else
    lost[#lost + 1] = id
  end
end
return done('ok', lost)
