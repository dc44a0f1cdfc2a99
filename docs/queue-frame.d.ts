/**
 * Types for front ends that read the gateway's streams; docs/frontend.md shows the code.
 * The frame tells a waiting client its place: `event: queue`, with these data.
 */
export interface QueueFrame {
  /** Always "ping", so that clients which dispatch on it take the frame for a keep-alive. */
  type: "ping";
  /** The caller's place, from 1 (next); it never rises. */
  position: number;
  /** How many wait for the same upstream, the caller included. */
  queue_length: number;
  /** Since the request joined the line. */
  waited_seconds: number;
  /** Until a slot, from measured times; null until enough is measured. It may rise again. */
  estimated_wait_seconds: number | null;
}

/** Anthropic's own events, as far as a chat needs them; their documentation has them all. */
export type AnthropicFrame =
  | { event: "message_start"; data: { type: "message_start"; message: { id: string; model: string } } }
  | { event: "content_block_start"; data: { type: "content_block_start"; index: number; content_block: { type: string } } }
  | { event: "content_block_delta"; data: { type: "content_block_delta"; index: number; delta: Delta } }
  | { event: "content_block_stop"; data: { type: "content_block_stop"; index: number } }
  | { event: "message_delta"; data: { type: "message_delta"; delta: { stop_reason: string | null } } }
  | { event: "message_stop"; data: { type: "message_stop" } }
  | { event: "ping"; data: { type: "ping" } };

export type Delta =
  | { type: "text_delta"; text: string }
  | { type: "thinking_delta"; thinking: string }
  | { type: "signature_delta"; signature: string }
  | { type: "input_json_delta"; partial_json: string };

/** What `ask` yields: look at `event`, the name, not at `data.type`. */
export type Frame = { event: "queue"; data: QueueFrame } | AnthropicFrame;

export interface MessagesRequest {
  model: string;
  max_tokens: number;
  messages: { role: "user" | "assistant"; content: unknown }[];
  [more: string]: unknown;
}

/** Everything that ends badly, before or inside the stream. */
export class AnswerError extends Error {
  /** Anthropic's error type, such as "overloaded_error". */
  readonly type: string;
  /** Seconds, if the gateway named a time to try again. */
  readonly retryAfter: number | null;
}

export function ask(
  url: string,
  request: MessagesRequest,
  options?: { headers?: Record<string, string>; signal?: AbortSignal },
): AsyncGenerator<Frame, void, void>;
