// Splits drawing work into one piece per frame, so that many small pieces never form one long task.
const waiting: (() => void)[] = [];

function next(): void {
  // After the frame, in a separate task: its changes are laid out in the next frame.
  requestAnimationFrame(() => setTimeout(() => {
    const work = waiting.shift();
    if (waiting.length > 0) next();
    work?.();
  }));
}

/** Runs work after all work that is already waiting. The returned function cancels it. A hidden page waits. */
export function inTurn(work: () => void): () => void {
  waiting.push(work);
  if (waiting.length === 1) next();
  return () => {
    const place = waiting.indexOf(work);
    if (place > 0) waiting.splice(place, 1);
    else if (place === 0) waiting[0] = () => {}; // its frame has been requested already
  };
}
