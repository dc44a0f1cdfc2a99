-- quit: a replica hands back all that it holds, and is gone.
if not state.epoch then
  return UNKNOWN
end
notice_silence()
remove_replica(replica)
return done('ok')
