// fetch-event-source, which is made for browsers: Node lends it the little it wants of one.
import { createRequire } from 'node:module';
import { Fold, body, order, report } from './order.mjs';

globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
const require = createRequire(import.meta.url);
const { fetchEventSource } = require('@microsoft/fetch-event-source');

const asked = {
  method: 'POST',
  headers: { 'content-type': 'application/json', ...order.headers },
  body: JSON.stringify({ ...body, stream: order.stream }),
};

async function whole() {
  const response = await fetch(`${order.url}/v1/messages`, asked);
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()).content.map((block) => block.text ?? '').join('');
}

await report('@microsoft/fetch-event-source', async () => {
  if (!order.stream) return whole();
  const fold = new Fold();
  await fetchEventSource(`${order.url}/v1/messages`, {
    ...asked,
    openWhenHidden: true,
    async onopen(response) {
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    },
    onmessage(event) {
      if (event.data) fold.take(JSON.parse(event.data)); // a comment arrives without data
    },
    onerror(error) {
      throw error; // or it would ask again, at the end of the line
    },
  });
  return fold.result;
});
