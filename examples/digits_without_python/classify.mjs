// Classifies digits with the exported network: node classify.mjs model.mjs pixels.f32 labels.i32
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [program, pixelFile, labelFile] = process.argv.slice(2);
const { load } = await import(pathToFileURL(resolve(program)));
const bytes = path => {
  const data = readFileSync(path);
  return data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
};
const pixels = new Float32Array(bytes(pixelFile)), labels = new Int32Array(bytes(labelFile));
const digits = await load();
const found = digits.several(pixels).labels;
labels.forEach((_, i) => {
  const alone = digits.one(pixels.subarray(64 * i, 64 * i + 64)).label[0];
  if (alone !== found[i]) throw new Error(`digit ${i}: alone ${alone}, with others ${found[i]}`);
});
const right = found.filter((x, i) => x === labels[i]).length;
console.log(`JavaScript: ${(100 * right / labels.length).toFixed(2)}% of ${labels.length} held-out digits are recognised`);
