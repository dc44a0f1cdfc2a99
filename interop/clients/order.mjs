// What every script for a JavaScript client shares: its order, and the one JSON line it prints.
import { readFileSync } from 'node:fs';

export const order = JSON.parse(process.argv[2]);
export const mode = order.stream ? order.mode : 'whole';
export const positions = []; // what the caller's code was handed of the line

export const weather = {
  name: 'weather',
  description: 'The weather in a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

/** The request, for clients that take Anthropic's own parameters. */
export const body = {
  model: order.model,
  max_tokens: order.max_tokens ?? 2048,
  messages: [{ role: 'user', content: order.prompt }],
  ...(order.tools ? { tools: [weather] } : {}),
  ...(order.thinking ? { thinking: { type: 'enabled', budget_tokens: 1024 } } : {}),
};

/** A tool call, written down as Python would. */
export function call(name, args) {
  const given = typeof args === 'string' ? JSON.parse(args) : args;
  const pairs = Object.entries(given).map(([key, value]) => `"${key}": ${JSON.stringify(value)}`);
  return `${name}({${pairs.join(', ')}})`;
}

/** Folds Anthropic's events into what the caller has in the end. */
export class Fold {
  text = '';
  name = '';
  arguments = '';

  take(event) {
    if (event.position !== undefined) positions.push(event.position);
    if (event.type === 'error') throw new Error(`${event.error.type}: ${event.error.message}`);
    this.name += event.content_block?.name ?? '';
    this.text += event.delta?.text ?? '';
    this.arguments += event.delta?.partial_json ?? '';
  }

  get result() {
    return this.name ? call(this.name, this.arguments) : this.text;
  }
}

/** Runs `use` and prints what came of it; `use` resolves to the text. */
export async function report(client, use) {
  const said = { client, ok: true, text: '', error: '' };
  try {
    said.text = await use();
  } catch (error) {
    said.ok = false;
    said.error = `${error?.name ?? 'Error'}: ${error?.message ?? error}`.slice(0, 300);
  }
  const manifest = new URL(`node_modules/${client}/package.json`, import.meta.url);
  said.version = JSON.parse(readFileSync(manifest, 'utf8')).version;
  console.log(JSON.stringify({ ...said, events: positions }));
  process.exit(0); // connections kept alive would hold the process
}
