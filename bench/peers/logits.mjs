// Log-probabilities of a peer for a list of token ids, as dctms saves logits ("DCTLOGIT", u32 rows, u32 vocabulary, f32 rows).
//
//   NODE_PEER=/folder/with/node_modules node logits.mjs MODEL.gguf IDS.txt FIRST_ROW OUT [THREADS]
//
// IDS.txt holds decimal ids separated by spaces. Rows before FIRST_ROW are written as zeros (they are not asked for).
import fs from "node:fs";
import path from "node:path";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const [model_path, ids_path, first_text, out_path, threads_text] = process.argv.slice(2);
const require = createRequire(path.join(process.env.NODE_PEER ?? process.cwd(), "package.json"));
const {getLlama} = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);

const ids = fs.readFileSync(ids_path, "utf8").trim().split(/\s+/).map(Number);
const first = Number(first_text);
const llama = await getLlama({gpu: false, build: "never", maxThreads: Number(threads_text ?? 2), logLevel: "error"});
const model = await llama.loadModel({modelPath: model_path});
const context = await model.createContext({contextSize: ids.length + 8, batchSize: 512, threads: Number(threads_text ?? 2)});
const sequence = context.getSequence();
const options = {temperature: 1, topK: 0, topP: 1, minP: 0};
const items = ids.map((id, i) => i < first ? id : [id, {generateNext: {token: true, probabilities: true, options}}]);
const results = await sequence.controlledEvaluate(items);

const n_vocab = Math.max(...Array.from(results, (r) => r?.next?.probabilities?.size ?? 0)); // results has holes
const out = fs.openSync(out_path, "w");
const head = Buffer.alloc(16);
head.write("DCTLOGIT", 0, "latin1");
head.writeUInt32LE(ids.length, 8);
head.writeUInt32LE(n_vocab, 12);
fs.writeSync(out, head);
for (let i = 0; i < ids.length; i++) {
    const row = new Float32Array(n_vocab);
    const probabilities = results[i]?.next?.probabilities;
    if (probabilities != null) {
        row.fill(-Infinity);
        for (const [token, p] of probabilities) row[token] = Math.log(p);
    }
    fs.writeSync(out, Buffer.from(row.buffer));
}
fs.closeSync(out);
await context.dispose();
await model.dispose();
process.exit(0);
