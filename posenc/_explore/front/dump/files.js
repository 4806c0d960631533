// @ts-check
// The arrays of a file: .npz (a zip of .npy) and .safetensors. Nothing in a file is executed, and nothing leaves the page.

import { Unfit } from "./numbers.js";

/** @import { Numbers } from "./numbers.js" */

export const LARGEST = 512 * 2 ** 20; // bytes of a file: what a page can hold beside its numbers
const MOST_HEADER = 100 * 2 ** 20; // of safetensors, whose own reader has this limit
/** @typedef {() => Promise<Numbers>} Read @typedef {{ shape: number[], dtype: string, read: Read }} Entry an array that is read when it is wanted */

/** @type {(text: string) => never} */
const fail = (text) => {
  throw new Unfit(text);
};

/**
 * The arrays of a file by name, by its first bytes: names lie.
 * @type {(name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<Map<string, Entry>>}
 */
export async function arrays(name, bytes) {
  if (bytes.length > LARGEST) fail(`${name} has ${Math.ceil(bytes.length / 2 ** 20)} MiB, and a page reads ${LARGEST / 2 ** 20} at most: dump one layer and some hundred positions`);
  if (!bytes.length) fail(`${name} is empty`);
  const start = String.fromCharCode(...bytes.subarray(0, 6));
  try {
    if (start.startsWith("PK")) return await npz(name, bytes);
    if (start === "\x93NUMPY") return fail(`${name} is a single array: save before, after and positions with numpy.savez`);
    if (bytes[8] === 0x7b) return safetensors(name, bytes);
  } catch (error) {
    if (error instanceof Unfit) throw error;
    fail(`${name} cannot be read: ${error.message}; save it anew`);
  }
  const pickled = /\.(pt|pth|bin|pkl)$/i.test(name) ? "; a file of torch.save can run code, so nothing here opens it" : "";
  return fail(`${name} is neither a .npz nor a .safetensors${pickled}: write one with the function below`);
}

// ---- zip

/** @type {(name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<Map<string, Entry>>} */
async function npz(name, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  const least = Math.max(0, end - 0xffff);
  while (end >= least && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < least || end < 0) fail(`${name} is cut off, or no zip: its table of contents is missing. Save it anew with numpy.savez`);
  let count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  if (at === 0xffffffff || count === 0xffff) { // zip64
    const locator = end - 20;
    if (locator < 0 || view.getUint32(locator, true) !== 0x07064b50) fail(`${name} is damaged: its table of contents is missing`);
    const record = Number(view.getBigUint64(locator + 8, true));
    count = Number(view.getBigUint64(record + 32, true));
    at = Number(view.getBigUint64(record + 48, true));
  }
  /** @type {Map<string, Entry>} */
  const found = new Map();
  for (let i = 0; i < count; i++) {
    if (at + 46 > bytes.length || view.getUint32(at, true) !== 0x02014b50) fail(`${name} is damaged: entry ${i + 1} of its contents cannot be read`);
    const [flags, method] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true)];
    let [packed, size] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const [named, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    let place = view.getUint32(at + 42, true);
    const file = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + named));
    for (let e = at + 46 + named, stop = e + extra; e + 4 <= stop; e += 4 + view.getUint16(e + 2, true)) {
      if (view.getUint16(e, true) !== 1) continue; // zip64's sizes, each present where its field is full
      let v = e + 4;
      const wide = () => {
        v += 8;
        return Number(view.getBigUint64(v - 8, true));
      };
      if (size === 0xffffffff) size = wide();
      if (packed === 0xffffffff) packed = wide();
      if (place === 0xffffffff) place = wide();
    }
    at += 46 + named + extra + comment;
    if (!file.endsWith(".npy")) continue;
    if (flags & 1) fail(`${file} in ${name} is encrypted: save it with numpy.savez`);
    if (method !== 0 && method !== 8) fail(`${file} in ${name} is packed by method ${method}: use numpy.savez or savez_compressed`);
    if (size > LARGEST) fail(`${file} in ${name} has ${Math.ceil(size / 2 ** 20)} MiB, and a page reads ${LARGEST / 2 ** 20} at most: dump one layer and some hundred positions`);
    const begin = place + 30 + view.getUint16(place + 26, true) + view.getUint16(place + 28, true);
    if (begin + packed > bytes.length) fail(`${name} is cut off within ${file}: save or copy it anew`);
    const part = bytes.subarray(begin, begin + packed);
    const plain = method === 0 ? part : await inflated(part, size, `${file} in ${name}`);
    const array = npy(plain, `${file} in ${name}`);
    found.set(file.slice(0, -4), array);
  }
  return found;
}

/** @type {(packed: Uint8Array<ArrayBuffer>, size: number, where: string) => Promise<Uint8Array<ArrayBuffer>>} */
async function inflated(packed, size, where) {
  const out = new Uint8Array(size);
  let length = 0;
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    if (length + value.length > size) fail(`${where} unpacks to more than its ${size} bytes: the file is damaged`); // or a bomb
    out.set(value, length);
    length += value.length;
  }
  if (length !== size) fail(`${where} unpacks to ${length} bytes of ${size}: the file is damaged`);
  return out;
}

// ---- npy

/** By the letters of numpy: the dtype's name and its size in bytes. @type {Record<string, [string, number]>} */
const NUMPY = {
  f2: ["float16", 2], f4: ["float32", 4], f8: ["float64", 8], i1: ["int8", 1], i2: ["int16", 2], i4: ["int32", 4],
  i8: ["int64", 8], u1: ["uint8", 1], u2: ["uint16", 2], u4: ["uint32", 4], u8: ["uint64", 8], b1: ["bool", 1],
  c8: ["complex64", 8], c16: ["complex128", 16],
};

/** @type {(bytes: Uint8Array<ArrayBuffer>, where: string) => Entry} */
function npy(bytes, where) {
  if (String.fromCharCode(...bytes.subarray(0, 6)) !== "\x93NUMPY") fail(`${where} is no array of numpy`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wide = bytes[6] >= 2; // version 1 has two bytes for the length of its header, 2 and 3 have four
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const start = (wide ? 12 : 10) + length;
  const header = new TextDecoder().decode(bytes.subarray(start - length, start));
  const descr = /'descr':\s*'([<>|=]?)(\w+)'/.exec(header);
  const shaped = /'shape':\s*\(([\d,\s]*)\)/.exec(header);
  if (!descr || !shaped) return fail(`${where} holds ${/'descr':\s*('[^']*'|\S+)/.exec(header)?.[1] ?? "something"}, and no plain array: save numbers`);
  const [dtype, size] = NUMPY[descr[2]] ?? fail(`${where} holds ${descr[2]}, and no numbers that are read here: save it as float32`);
  const shape = shaped[1].split(",").filter((x) => x.trim()).map(Number);
  const fortran = /'fortran_order':\s*True/.test(header);
  const little = descr[1] !== ">";
  const entry = numbers(bytes.subarray(start), shape, dtype, size, where, little);
  if (!fortran || shape.length < 2) return entry;
  return { ...entry, read: async () => transposed(await entry.read()) };
}

/** Numbers in the order of Fortran, in that of C. @param {Numbers} numbers @returns {Numbers} */
function transposed({ shape, data, dtype }) {
  const out = new Float64Array(data.length);
  const at = shape.map(() => 0);
  const steps = shape.map((_, a) => shape.slice(0, a).reduce((x, y) => x * y, 1));
  for (let to = 0; to < out.length; to++) {
    out[to] = data[at.reduce((total, index, a) => total + index * steps[a], 0)];
    for (let a = shape.length - 1; a >= 0 && ++at[a] === shape[a]; a--) at[a] = 0;
  }
  return { shape, data: out, dtype };
}

// ---- safetensors

/** @type {Record<string, [string, number]>} */
const TENSORS = {
  F16: ["float16", 2], BF16: ["bfloat16", 2], F32: ["float32", 4], F64: ["float64", 8], I8: ["int8", 1], U8: ["uint8", 1],
  I16: ["int16", 2], I32: ["int32", 4], I64: ["int64", 8], U16: ["uint16", 2], U32: ["uint32", 4], U64: ["uint64", 8], BOOL: ["bool", 1],
};

/** @type {(name: string, bytes: Uint8Array<ArrayBuffer>) => Map<string, Entry>} */
function safetensors(name, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = Number(view.getBigUint64(0, true));
  if (length > MOST_HEADER || 8 + length > bytes.length) fail(`${name} is cut off, or no .safetensors: its header is to have ${length} bytes`);
  /** @type {Record<string, { dtype: string, shape: number[], data_offsets: [number, number] }>} */
  let header = {};
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  } catch {
    fail(`${name} cannot be read: its header is no JSON. Save it anew`);
  }
  /** @type {Map<string, Entry>} */
  const found = new Map();
  for (const [key, told] of Object.entries(header)) {
    if (key === "__metadata__") continue;
    const where = `${key} in ${name}`;
    const { dtype, shape, data_offsets: offsets } = told ?? {};
    const whole = (/** @type {unknown} */ list) => Array.isArray(list) && list.every((x) => Number.isSafeInteger(x) && x >= 0);
    if (!whole(shape) || !whole(offsets) || offsets.length !== 2) fail(`${where} has no shape or no place: the file is damaged`);
    const [kind, size] = TENSORS[dtype] ?? fail(`${where} holds ${dtype}, and no numbers that are read here: save it as float32`);
    const [from, to] = offsets.map((x) => 8 + length + x);
    if (to > bytes.length || to < from) fail(`${name} is cut off within ${key}: save or copy it anew`);
    found.set(key, numbers(bytes.subarray(from, to), shape, kind, size, where, true));
  }
  return found;
}

// ---- numbers

/** @type {(bytes: Uint8Array<ArrayBuffer>, shape: number[], dtype: string, size: number, where: string, little: boolean) => Entry} */
function numbers(bytes, shape, dtype, size, where, little) {
  const count = shape.reduce((a, b) => a * b, 1);
  if (bytes.length < count * size) fail(`${where} has ${bytes.length} bytes, and its shape wants ${count * size}: the file is cut off`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** @type {Record<string, (at: number) => number>} */
  const readers = {
    float16: (at) => half(view.getUint16(at, little)),
    bfloat16: (at) => single(view.getUint16(at, little)),
    float32: (at) => view.getFloat32(at, little),
    float64: (at) => view.getFloat64(at, little),
    int8: (at) => view.getInt8(at),
    uint8: (at) => view.getUint8(at),
    bool: (at) => view.getUint8(at),
    int16: (at) => view.getInt16(at, little),
    uint16: (at) => view.getUint16(at, little),
    int32: (at) => view.getInt32(at, little),
    uint32: (at) => view.getUint32(at, little),
    int64: (at) => Number(view.getBigInt64(at, little)),
    uint64: (at) => Number(view.getBigUint64(at, little)),
  };
  const reader = readers[dtype]; // complex numbers have none: what they are is said, and they are not read
  return {
    shape,
    dtype,
    read: async () => ({ shape, dtype, data: reader ? Float64Array.from({ length: count }, (_, i) => reader(i * size)) : new Float64Array() }),
  };
}

/** @param {number} bits of float16 */
function half(bits) {
  const [sign, exponent, part] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return part ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + part / 1024) * 2 ** (exponent - 15) : part * 2 ** -24);
}

const WORD = new Uint32Array(1);
const FLOAT = new Float32Array(WORD.buffer);
/** @param {number} bits of bfloat16, the upper half of a float32 */
function single(bits) {
  WORD[0] = bits << 16;
  return FLOAT[0];
}
