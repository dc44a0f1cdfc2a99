-- resize SLOTS: the last one who says it decides for all replicas.
if not state.epoch then
  return UNKNOWN
end
notice_silence()
if not registered() then
  return UNKNOWN
end
if state.slots ~= ARGV[FIRST] then
  set('slots', ARGV[FIRST])
  tell('slots', ARGV[FIRST])
end
return done('ok')
