-- leave ID...: leaves the line or releases the slot. Anybody may say it, at any time, again.
if not state.epoch then
  return UNKNOWN
end
notice_silence()
for index = FIRST, #ARGV do
  leave(ARGV[index])
end
return done('ok')
