// The official SDK for TypeScript, in all its ways to read a stream.
import Anthropic from '@anthropic-ai/sdk';
import { Fold, body, call, mode, order, report } from './order.mjs';

const client = new Anthropic({ baseURL: order.url, apiKey: 'none', defaultHeaders: order.headers });

function whole(message) {
  const tool = message.content.find((block) => block.type === 'tool_use');
  if (tool) return call(tool.name, tool.input);
  return message.content.map((block) => block.text ?? '').join('');
}

async function folded(events) {
  const fold = new Fold();
  for await (const event of events) fold.take(event);
  return fold.result;
}

async function surface() {
  const { model, messages } = body;
  const counted = await client.messages.countTokens({ model, messages });
  if (counted.input_tokens !== 7) throw new Error(`counted ${counted.input_tokens}`);
  const ids = [];
  for await (const item of client.models.list()) ids.push(item.id);
  if (!ids.includes(model)) throw new Error(`the models are ${ids}`);
}

await report('@anthropic-ai/sdk', async () => {
  if (mode === 'create') return folded(await client.messages.create({ ...body, stream: true }));
  if (mode === 'stream') return folded(client.messages.stream(body));
  if (mode === 'on_text') {
    let text = '';
    const stream = client.messages.stream(body).on('text', (part) => (text += part));
    const message = await stream.finalMessage();
    return text || whole(message);
  }
  await surface();
  return whole(await client.messages.create(body));
});
