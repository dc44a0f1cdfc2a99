import { ask } from "./demo/stream.js";

const byId = (id) => document.getElementById(id);
const conversation = [];
let stopping = null;
let place = null; // the last queue frame, with the moment when it came

const headers = () => (byId("key").value ? { "x-api-key": byId("key").value } : {});

function say(kind, text) {
  const node = document.createElement("div");
  node.className = kind;
  node.textContent = text;
  byId("log").append(node);
  node.scrollIntoView({ block: "end" });
  return node;
}

// --- the place in line --------------------------------------------------------------------------

function showPlace(frame) {
  place = frame && { ...frame, at: performance.now() };
  byId("place").hidden = !place;
  if (!place) return;
  byId("position").textContent = place.position;
  byId("told").textContent = place.position === 1 ? "You are next." : `You are number ${place.position} of ${place.queue_length}.`;
  byId("steps").replaceChildren(...Array.from({ length: Math.min(place.position, 30) }, () => document.createElement("span")));
  countDown();
}

/** Between two frames the page counts by itself. */
function countDown() {
  if (!place) return;
  const since = (performance.now() - place.at) / 1000;
  const left = place.estimated_wait_seconds === null ? null : Math.round(place.estimated_wait_seconds - since);
  const waited = `waiting for ${Math.round(place.waited_seconds + since)} s`;
  const rest = left === null ? "how long is not known yet" : left > 0 ? `about ${left} s to go` : "any moment now";
  byId("countdown").textContent = `${rest}, ${waited}`;
}

setInterval(countDown, 1000);

// --- one message --------------------------------------------------------------------------------

async function send(text) {
  say("mine", text);
  conversation.push({ role: "user", content: text });
  const request = { model: byId("model").value, max_tokens: 400, messages: conversation };
  let answer = null;
  for await (const { event, data } of ask("llm/v1/messages", request, { headers: headers(), signal: stopping.signal })) {
    if (event === "queue") showPlace(data);
    if (event === "message_start") {
      showPlace(null);
      answer = say("answer", "");
    }
    if (event === "content_block_delta" && data.delta.type === "text_delta") {
      answer.textContent += data.delta.text;
      answer.scrollIntoView({ block: "end" });
    }
  }
  conversation.push({ role: "assistant", content: answer.textContent || "…" });
}

byId("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = byId("text").value.trim();
  if (!text || stopping) return;
  stopping = new AbortController();
  running(true);
  byId("text").value = "";
  try {
    await send(text);
  } catch (error) {
    conversation.pop();
    if (error.name === "AbortError") say("stopped", "Stopped; the place is free again.");
    else say("failed", error.retryAfter ? `${error.message} Try again in ${error.retryAfter} s.` : error.message);
    if (error.type === "authentication_error") askForKey();
  } finally {
    stopping = null;
    showPlace(null);
    running(false);
  }
});

byId("stop").addEventListener("click", () => stopping?.abort());
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    byId("form").requestSubmit();
  }
});

function running(yes) {
  byId("stop").hidden = !yes;
  byId("send").hidden = yes;
  byId(yes ? "stop" : "text").focus();
}

// --- models and keys ----------------------------------------------------------------------------

function askForKey() {
  for (const node of document.querySelectorAll(".keyed")) node.hidden = false;
  byId("key").focus();
}

async function loadModels() {
  const response = await fetch("llm/v1/models", { headers: headers() });
  if (response.status === 401) return askForKey();
  const { data } = await response.json();
  byId("model").replaceChildren(...data.map((model) => new Option(model.display_name ?? model.id, model.id)));
}

byId("key").addEventListener("change", loadModels);
loadModels();
