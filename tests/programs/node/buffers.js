// Allocates much memory outside V8's heap and checks every byte of it: unpooled buffers, zlib's state, isolates of
// workers.
'use strict';
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function sumOfBuffers(from, to) {
  const kept = [];
  let sum = 0;
  for (let i = from; i < to; i++) {
    // Not from Node's pool: each buffer is a malloc of its own.
    const buffer = Buffer.allocUnsafeSlow(8 + (i * 37) % 5000);
    buffer.writeDoubleLE(i, 0);
    buffer.fill(i & 255, 8);
    kept.push(buffer);
    if (kept.length > 2000) {
      const old = kept.splice((i * 31) % 1000, 1000);
      for (const one of old) sum += check(one);
    }
  }
  for (const one of kept) sum += check(one);
  return sum;
}

function check(buffer) {
  const number = buffer.readDoubleLE(0);
  for (const at of [8, buffer.length >> 1, buffer.length - 1]) {
    if (at >= 8 && at < buffer.length && buffer[at] !== (number & 255)) throw new Error(`buffer ${number} is damaged at ${at}`);
  }
  return number;
}

if (!isMainThread) {
  parentPort.postMessage(sumOfBuffers(workerData.from, workerData.to));
} else {
  let bytes = 0;
  for (let i = 0; i < 300; i++) {
    const buffer = Buffer.alloc(10000);
    if (buffer.some((byte) => byte !== 0)) throw new Error('Buffer.alloc is not zeroed');
    buffer.fill(1);
    bytes += buffer.reduce((a, b) => a + b, 0);
  }
  let packed = 0;
  for (let i = 0; i < 400; i++) {
    const text = Buffer.from(`line ${i} `.repeat(500 + i));
    const round = i % 2 ? zlib.gunzipSync(zlib.gzipSync(text)) : zlib.brotliDecompressSync(zlib.brotliCompressSync(text, {
      params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }));
    if (!round.equals(text)) throw new Error(`text ${i} did not survive compression`);
    packed++;
  }
  const workers = 4, each = 50000;
  let sum = 0, ended = 0;
  for (let w = 0; w < workers; w++) {
    const worker = new Worker(__filename, { workerData: { from: w * each, to: (w + 1) * each } });
    worker.on('message', (part) => { sum += part; });
    worker.on('error', (problem) => { throw problem; });
    worker.on('exit', () => {
      if (++ended === workers) console.log(`buffers ${bytes} zlib ${packed} workers ${ended} sum ${sum}`);
    });
  }
}
