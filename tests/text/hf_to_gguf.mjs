// Turns a tokenizer.json (byte-level BPE) into a GGUF file that holds only the vocabulary.
//
//   node hf_to_gguf.mjs tokenizer.json PRE out.gguf
//
// PRE is what tokenizer.ggml.pre shall say (qwen2, llama-bpe, ...). Added tokens that are "special" become control tokens, the
// others user-defined, as converters of models do it. Ids that nothing names are filled with unused tokens.
import { readFileSync, writeFileSync } from 'node:fs';

const [, , source, pre, target] = process.argv;
const { model, added_tokens } = JSON.parse(readFileSync(source, 'utf8'));
const NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5;
const U32 = 4, I32 = 5, STRING = 8, ARRAY = 9;

const tokens = [], types = [];
for (const [text, id] of Object.entries(model.vocab)) { tokens[id] = text; types[id] = NORMAL; }
for (const t of added_tokens) { tokens[t.id] = t.content; types[t.id] = t.special ? CONTROL : USER_DEFINED; }
for (let id = 0; id < tokens.length; id++)
  if (tokens[id] === undefined) { tokens[id] = `[PAD${id}]`; types[id] = UNUSED; }
const merges = model.merges.map((m) => (Array.isArray(m) ? m.join(' ') : m));

const chunks = [];
const u32 = (v) => { const b = Buffer.alloc(4); b.writeUInt32LE(v); chunks.push(b); };
const u64 = (v) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(v)); chunks.push(b); };
const str = (s) => { const b = Buffer.from(s, 'utf8'); u64(b.length); chunks.push(b); };
const meta = [
  ['general.architecture', () => { u32(STRING); str('llama'); }],
  ['tokenizer.ggml.model', () => { u32(STRING); str('gpt2'); }],
  ['tokenizer.ggml.pre', () => { u32(STRING); str(pre); }],
  ['tokenizer.ggml.tokens', () => { u32(ARRAY); u32(STRING); u64(tokens.length); tokens.forEach(str); }],
  ['tokenizer.ggml.token_type', () => { u32(ARRAY); u32(I32); u64(types.length); types.forEach(u32); }],
  ['tokenizer.ggml.merges', () => { u32(ARRAY); u32(STRING); u64(merges.length); merges.forEach(str); }],
];
const bos = tokens.indexOf('<|begin_of_text|>'), eos = tokens.indexOf(pre === 'qwen2' ? '<|im_end|>' : '<|eot_id|>');
if (bos >= 0) meta.push(['tokenizer.ggml.bos_token_id', () => { u32(U32); u32(bos); }]);
if (eos >= 0) meta.push(['tokenizer.ggml.eos_token_id', () => { u32(U32); u32(eos); }]);

chunks.push(Buffer.from('GGUF'));
u32(3);
u64(0);
u64(meta.length);
for (const [key, write] of meta) { str(key); write(); }
writeFileSync(target, Buffer.concat(chunks));
