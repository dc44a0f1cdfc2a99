// LangChain for JavaScript.
import { ChatAnthropic } from '@langchain/anthropic';
import { call, mode, order, positions, report, weather } from './order.mjs';

let model = new ChatAnthropic({
  model: order.model,
  apiKey: 'none',
  maxTokens: order.max_tokens ?? 2048,
  anthropicApiUrl: order.url,
  clientOptions: { defaultHeaders: order.headers },
  ...(order.thinking ? { thinking: { type: 'enabled', budget_tokens: 1024 } } : {}),
});
if (order.tools) model = model.bindTools([weather]);

function written(message) {
  const [tool] = message.tool_calls ?? [];
  if (tool) return call(tool.name, tool.args);
  if (typeof message.content === 'string') return message.content;
  return message.content.map((block) => block.text ?? '').join('');
}

await report('@langchain/anthropic', async () => {
  if (mode === 'whole') return written(await model.invoke(order.prompt));
  let message;
  for await (const chunk of await model.stream(order.prompt)) {
    if (chunk.position !== undefined) positions.push(chunk.position);
    message = message ? message.concat(chunk) : chunk;
  }
  return message ? written(message) : '';
});
