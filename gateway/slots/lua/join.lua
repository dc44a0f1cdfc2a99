-- join ID CLIENT MODEL MAX_WAITING MAX_WAITING_PER_CLIENT: a new ticket, granted or at the end.
-- Said twice, it is done once. An empty maximum means none.
if not state.epoch then
  return UNKNOWN
end
notice_silence()
if not registered() then
  return UNKNOWN
end
local id, client, model, max_waiting, max_of_client = unpack(ARGV, FIRST)

local function refusal()
  local waiting = redis.call('ZCARD', LINE)
  if waiting == 0 and redis.call('ZCARD', LEASES) < number_of('slots') then
    return nil
  end
  if waiting >= tonumber(max_waiting) then
    return 'rejected_full'
  end
  local of_client = tonumber(redis.call('HGET', CLIENTS, client) or '0')
  if max_of_client ~= '' and of_client >= tonumber(max_of_client) then
    return 'rejected_client_limit'
  end
end

local status = 'ok'
if redis.call('HEXISTS', TICKETS, id) == 0 then
  status = refusal() or 'ok'
  if status == 'ok' then
    enter(id, math.max(number_of('number') + 1, now), client, model)
  end
end
return done(status)
