-- hello RUN YOUNG SLOTS DECIDES: a replica begins its stay; it may join once it has claimed.
--
-- RUN is the id of this server's run: a new one may have lost the last writes. YOUNG is '1' if the
-- server has run for less than a lease, so that replicas may still be on their way back to it.
-- SLOTS is the limit if none is known, or whatever is known if DECIDES is '1'.
-- Answers the epoch, which every further call must name.
local run, young, slots, decides = unpack(ARGV, FIRST)

if not state.epoch then
  for _, name in ipairs({ 'number', 'turned', 'version' }) do
    set(name, now)
  end
  -- All is lost, or this is the first time ever: that takes no longer than a beat to find out.
  gather((epoch ~= '' or young == '1') and lease or lease / 3)
  redis.call('SADD', AWAITED, '?')
elseif state.run ~= run or now - number_of('last') > lease * 2 / 3 then
  gather(lease)
end
set('run', run)
set('last', now)
redis.call('ZADD', REPLICAS, whole(now + lease), replica)
if state.slots ~= slots and (decides == '1' or not state.slots) then
  set('slots', slots)
  tell('slots', slots)
end
-- Nothing lapses here: what the caller holds is claimed next.
publish()
return { 'ok', number_of('version'), now, hold(), more, state.epoch }
