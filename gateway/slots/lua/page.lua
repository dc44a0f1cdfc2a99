-- page AFTER COUNT: the waiting tickets behind number AFTER; with the last page, the leases too.
-- Answers slots, turned, [id, ticket]... and [id, since, ticket]... or false. Changes nothing.
local after, count = ARGV[FIRST], tonumber(ARGV[FIRST + 1])
local waiting, running = {}, false
for _, id in ipairs(redis.call('ZRANGEBYSCORE', LINE, '(' .. after, '+inf', 'LIMIT', 0, count)) do
  waiting[#waiting + 1] = { id, redis.call('HGET', TICKETS, id) }
end
if #waiting < count then
  running = {}
  for _, id in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
    local since = redis.call('HGET', GRANTED, id)
    running[#running + 1] = { id, since, redis.call('HGET', TICKETS, id) }
  end
end
local version, slots, turned = number_of('version'), number_of('slots'), number_of('turned')
return { 'ok', version, now, hold(), more, slots, turned, waiting, running }
