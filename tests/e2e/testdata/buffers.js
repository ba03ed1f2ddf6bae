// Buffers outside of JavaScript's heap, which are never dropped: 8 MB a second.
const kept = [];

function rememberBuffer() {
  kept.push(Buffer.alloc(20000, 1));
}

console.log("ready");
setInterval(() => {
  for (let i = 0; i < 20; i++) rememberBuffer();
}, 50);
