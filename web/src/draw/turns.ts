// Work that is drawn in turns: one piece a frame, so that many small ones never become one long task.
const waiting: (() => void)[] = [];

function next(): void {
  // Behind the frame, in a task of its own: what it changes is laid out in the next one.
  requestAnimationFrame(() => setTimeout(() => {
    const work = waiting.shift();
    if (waiting.length > 0) next();
    work?.();
  }));
}

/** Does it when all that waits already is done, and not at all once what is returned has been called. A page that is hidden waits. */
export function inTurn(work: () => void): () => void {
  waiting.push(work);
  if (waiting.length === 1) next();
  return () => {
    const place = waiting.indexOf(work);
    if (place > 0) waiting.splice(place, 1);
    else if (place === 0) waiting[0] = () => {}; // its frame has been asked for
  };
}
