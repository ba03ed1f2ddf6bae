// The Node row's program (node.py): the parts of Node that use malloc: buffers outside V8's heap, zlib's state, long
// strings on input and output, worker threads with heaps of their own. Prints a line per part.
'use strict';
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

// Unpooled buffers, a few thousand of them live, dropped in batches.
function buffers(count) {
  const kept = [];
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const buffer = Buffer.allocUnsafeSlow(16 + (i * 37) % 8000);
    buffer[0] = i & 255;
    kept.push(buffer);
    if (kept.length > 3000) for (const one of kept.splice((i * 31) % 1500, 1500)) sum += one[0];
  }
  return sum;
}

// Requests and answers of a service: bytes to text to object and back.
function json(count) {
  const document = { id: 0, name: 'an item', tags: ['red', 'green', 'blue'], parts: [] };
  for (let i = 0; i < 100; i++) document.parts.push({ id: i, text: `part ${i} of it`, more: { a: null, b: true } });
  let bytes = 0;
  for (let i = 0; i < count; i++) {
    document.id = i;
    const sent = Buffer.from(JSON.stringify(document));
    bytes += Buffer.from(JSON.stringify(JSON.parse(sent.toString('utf8')))).length;
  }
  return bytes;
}

function strings(count) {
  let length = 0;
  for (let i = 0; i < count; i++) {
    const text = `line ${i} `.repeat(20 + i % 200);
    length += Buffer.concat([Buffer.from(text, 'latin1'), Buffer.from(text.toUpperCase(), 'utf16le')]).toString('hex').length;
  }
  return length;
}

function packed(count) {
  let bytes = 0;
  for (let i = 0; i < count; i++) {
    const text = Buffer.from(`line ${i} `.repeat(300 + i % 300));
    bytes += zlib.gunzipSync(zlib.gzipSync(text, { level: 1 })).length;
  }
  return bytes;
}

if (!isMainThread) {
  parentPort.postMessage(buffers(workerData));
} else {
  console.log('buffers', buffers(600000));
  console.log('json', json(8000));
  console.log('strings', strings(60000));
  console.log('packed', packed(4000));
  let ended = 0, sum = 0;
  for (let i = 0; i < 3; i++) {
    const worker = new Worker(__filename, { workerData: 200000 });
    worker.on('message', (part) => { sum += part; });
    worker.on('error', (problem) => { throw problem; });
    worker.on('exit', () => { if (++ended === 3) console.log('workers', sum); });
  }
}
