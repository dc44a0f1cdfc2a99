// Vercel's AI SDK: streamText, generateText, tools.
import { createAnthropic } from '@ai-sdk/anthropic';
import { generateText, jsonSchema, streamText, tool } from 'ai';
import { call, mode, order, positions, report, weather } from './order.mjs';

const anthropic = createAnthropic({
  baseURL: `${order.url}/v1`,
  apiKey: 'none',
  headers: order.headers,
});
const asked = {
  model: anthropic(order.model),
  maxOutputTokens: order.max_tokens ?? 2048,
  prompt: order.prompt,
  ...(order.tools
    ? {
        tools: {
          weather: tool({
            description: weather.description,
            inputSchema: jsonSchema(weather.input_schema),
          }),
        },
      }
    : {}),
  ...(order.thinking
    ? { providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } } }
    : {}),
};

function take(part, seen) {
  if (part.type === 'error') throw part.error;
  if (part.type === 'raw' && part.rawValue?.position) positions.push(part.rawValue.position);
  if (part.type === 'text-delta') seen.text += part.text;
  if (part.type === 'tool-call') seen.tool = call(part.toolName, part.input);
}

await report('ai', async () => {
  if (mode === 'whole') return (await generateText(asked)).text;
  const seen = { text: '', tool: '' };
  const result = streamText({ ...asked, includeRawChunks: true, onError: () => {} });
  for await (const part of result.fullStream) take(part, seen);
  return seen.tool || seen.text;
});
