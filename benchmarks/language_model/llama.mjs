// Runs llama.cpp, as node-llama-cpp brings it, once for each line on its input:
//   node llama.mjs model.gguf THREADS CONTEXT
// A line has two numbers: tokens of the prompt and tokens to decode. It answers
// with times in ms: of the prompt, and of each token.
import { createInterface } from "node:readline";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [path, threads, contextSize] = process.argv.slice(2);
const llama = await getLlama({
  gpu: false,
  build: "never",
  maxThreads: Number(threads),
  logLevel: LlamaLogLevel.disabled,
});
const model = await llama.loadModel({ modelPath: path });
const context = await model.createContext({
  contextSize: Number(contextSize),
  batchSize: 512,
  threads: Number(threads),
});
const sequence = context.getSequence();
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [prompt, count] = line.split(" ").map(Number);
  await sequence.clearHistory();
  const tokens = Array.from({ length: prompt }, (_, i) => 300 + ((i * 7919) % 30000));
  const begin = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(tokens);
  const middle = performance.now();
  const times = [];
  let last = middle;
  for await (const token of sequence.evaluate([5], { temperature: 0, yieldEogToken: true })) {
    const now = performance.now();
    times.push(now - last);
    last = now;
    if (times.length >= count || token === undefined) break;
  }
  console.log([middle - begin, ...times].join(" "));
}
process.exit(0);
