-- The shared first half of every verb: one upstream's line, in one hash slot.
--
--   state     hash: epoch, hold, last, number, run, slots, turned, version
--   line      sorted set: waiting ticket -> its number
--   leases    sorted set: running ticket -> when its lease lapses
--   tickets   hash: ticket -> [number, client, model], waiting or running
--   granted   hash: running ticket -> since when
--   owned     sorted set, all scores 0: every ticket; a replica's own are one range of it
--   clients   hash: client -> how many of its tickets wait
--   replicas  sorted set: replica -> when it counts as dead
--   awaited   set: replicas that have yet to say what they hold in this epoch
--
-- Times are microseconds of this server's clock, which a double holds exactly until 2255. A ticket's
-- number is its time of joining, made unique: numbers go on growing after a loss of all data, so an
-- old ticket that is brought back stands before the newcomers.
--
-- Every change is published as one message, [version, event, ...]; the versions have no gaps.

local STATE, LINE, LEASES, TICKETS, GRANTED, OWNED, CLIENTS, REPLICAS, AWAITED = unpack(KEYS)
local channel, replica, epoch, lease = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local FIRST = 5 -- the first argument that belongs to the verb alone
local LAPSING_AT_ONCE = 1000 -- a dead replica's tickets that one call removes

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local message = { false } -- the version, once there is a change, and then the events
local more = 0

local function whole(number)
  return string.format('%.0f', number)
end

local state = {}
do
  local names = { 'epoch', 'hold', 'last', 'number', 'run', 'slots', 'turned', 'version' }
  local values = redis.call('HMGET', STATE, unpack(names))
  for index, name in ipairs(names) do
    state[name] = values[index]
  end
end

local function set(name, value)
  state[name] = type(value) == 'number' and whole(value) or value
  redis.call('HSET', STATE, name, state[name])
end

local function number_of(name)
  return tonumber(state[name] or '0')
end

local function tell(...)
  message[#message + 1] = { ... }
end

-- How long nobody is granted, because replicas may still hold slots that are not known here.
local function hold()
  local left = number_of('hold') - now
  if left > 0 and redis.call('SCARD', AWAITED) > 0 then
    return left
  end
  return 0
end

-- A new epoch: whoever may hold something says so again, before anybody is granted.
local function gather(seconds)
  redis.call('DEL', AWAITED)
  for _, known in ipairs(redis.call('ZRANGE', REPLICAS, 0, -1)) do
    redis.call('SADD', AWAITED, known)
    redis.call('ZADD', REPLICAS, whole(now + lease), known)
  end
  for _, id in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
    redis.call('ZADD', LEASES, whole(now + lease), id)
  end
  set('epoch', now)
  set('hold', now + seconds)
end

local function arrived(known)
  if redis.call('SREM', AWAITED, known) == 1 and redis.call('SCARD', AWAITED) == 0 then
    tell('gathered')
  end
end

-- If no replica at all was heard for two beats, it was Redis that was away, and nobody is dead.
local function notice_silence()
  if now - number_of('last') > lease * 2 / 3 then
    gather(lease)
  end
  set('last', now)
end

-- Whether the caller has registered in this epoch and has not lapsed since. A sign of life.
local function registered()
  if state.epoch ~= epoch or not redis.call('ZSCORE', REPLICAS, replica) then
    return false
  end
  redis.call('ZADD', REPLICAS, whole(now + lease), replica)
  return true
end

local function uncount(client)
  if redis.call('HINCRBY', CLIENTS, client, -1) <= 0 then
    redis.call('HDEL', CLIENTS, client)
  end
end

local function client_of(id)
  return cjson.decode(redis.call('HGET', TICKETS, id))[2]
end

local function enter(id, number, client, model)
  if number > number_of('number') then
    set('number', number)
  end
  redis.call('ZADD', LINE, whole(number), id)
  redis.call('ZADD', OWNED, 0, id)
  redis.call('HSET', TICKETS, id, cjson.encode({ whole(number), client, model }))
  redis.call('HINCRBY', CLIENTS, client, 1)
  tell('join', id, whole(number), client, model)
end

local function grant(id)
  redis.call('ZREM', LINE, id)
  uncount(client_of(id))
  redis.call('ZADD', LEASES, whole(now + lease), id)
  redis.call('HSET', GRANTED, id, whole(now))
  set('turned', now)
  tell('grant', id, whole(now))
end

-- Leaves the line or releases the slot; nothing if the ticket is gone.
local function leave(id)
  if redis.call('HEXISTS', TICKETS, id) == 0 then
    return
  end
  if redis.call('ZREM', LINE, id) == 1 then
    uncount(client_of(id))
  else
    redis.call('ZREM', LEASES, id)
    redis.call('HDEL', GRANTED, id)
    set('turned', now)
  end
  redis.call('HDEL', TICKETS, id)
  redis.call('ZREM', OWNED, id)
  tell('leave', id)
end

-- Up to so many tickets of one replica leave; whether these were all.
local function leave_all_of(gone)
  local range = { '[' .. gone .. '.', '(' .. gone .. '/', 'LIMIT', 0, LAPSING_AT_ONCE }
  local ids = redis.call('ZRANGEBYLEX', OWNED, unpack(range))
  for _, id in ipairs(ids) do
    leave(id)
  end
  return #ids < LAPSING_AT_ONCE
end

local function remove_replica(gone)
  if leave_all_of(gone) then
    redis.call('ZREM', REPLICAS, gone)
    arrived(gone)
  else
    more = 1
  end
end

local function lapse()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', whole(now))) do
    leave(id)
  end
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', REPLICAS, '-inf', whole(now), 'LIMIT', 0, 1)) do
    remove_replica(dead)
  end
end

local function is_alive(id)
  local deadline = redis.call('ZSCORE', REPLICAS, string.match(id, '^[^.]+'))
  return deadline and tonumber(deadline) > now
end

local function grant_in_turn()
  if hold() > 0 then
    return
  end
  local free = number_of('slots') - redis.call('ZCARD', LEASES)
  while free > 0 do
    local id = redis.call('ZRANGE', LINE, 0, 0)[1]
    if not id then
      return
    elseif is_alive(id) then
      grant(id)
      free = free - 1
    else
      leave(id)
    end
  end
end

local function publish()
  if #message > 1 then
    set('version', number_of('version') + 1)
    message[1] = state.version
    redis.call('PUBLISH', channel, cjson.encode(message))
  end
end

-- The last line of every verb that changes something.
local function done(status, ...)
  lapse()
  grant_in_turn()
  publish()
  return { status, number_of('version'), now, hold(), more, ... }
end

local UNKNOWN = { 'unknown', 0, now, 0, 0 } -- the caller must say hello
