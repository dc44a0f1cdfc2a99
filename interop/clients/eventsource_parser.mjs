// eventsource-parser over Node's own fetch.
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { Fold, body, order, report } from './order.mjs';

await report('eventsource-parser', async () => {
  const response = await fetch(`${order.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...order.headers },
    body: JSON.stringify({ ...body, stream: order.stream }),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  if (!order.stream) return (await response.json()).content.map((b) => b.text ?? '').join('');
  const fold = new Fold();
  const events = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const event of events) fold.take(JSON.parse(event.data));
  return fold.result;
});
