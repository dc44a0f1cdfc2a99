// How to read a stream that may have to wait: fetch, split into frames, look at the events' names.
// It depends on nothing and runs in every browser of the last years and in Node.

/** What went wrong, in the gateway's words; `type` is Anthropic's, such as `overloaded_error`. */
export class AnswerError extends Error {
  constructor({ type, message }, retryAfter = null) {
    super(message);
    this.type = type;
    this.retryAfter = retryAfter; // seconds, or null
  }
}

/**
 * Sends one request and yields `{ event, data }` for each event of its answer: first, while it
 * has to wait, `queue` with its place, then Anthropic's own events from `message_start` on.
 * Returns after `message_stop`; throws an AnswerError for everything that ends badly.
 * Aborting `signal`, or leaving the loop, gives the place or the slot back at once.
 */
export async function* ask(url, request, { headers = {}, signal } = {}) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ ...request, stream: true }),
    signal,
  });
  if (!response.ok) throw await refusal(response);
  for await (const frame of frames(response.body)) {
    if (frame.event === "error") throw new AnswerError(frame.data.error);
    yield frame;
    if (frame.event === "message_stop") return;
  }
  throw new AnswerError({ type: "api_error", message: "The answer broke off." });
}

/** Before a stream opens, an error is a status with a JSON body. */
async function refusal(response) {
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  const body = await response.json().catch(() => ({}));
  const unknown = { type: "api_error", message: `The server answered ${response.status}.` };
  return new AnswerError(body.error ?? unknown, retryAfter);
}

/** Splits bytes into frames, wherever the network has cut them. Comments are skipped. */
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const frame = parse(part);
        if (frame) yield frame;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parse(frame) {
  let event = "message";
  const data = [];
  for (const line of frame.split(/\r?\n/)) {
    const [, field, value] = /^(event|data): ?(.*)$/.exec(line) ?? [];
    if (field === "event") event = value;
    if (field === "data") data.push(value);
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
