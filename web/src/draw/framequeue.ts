// Splits drawing work into one piece per frame, so that many small pieces never form one long task.
const queue: (() => void)[] = [];

function scheduleNext(): void {
  // After the frame, in a separate task: its changes are laid out in the next frame.
  requestAnimationFrame(() =>
    setTimeout(() => {
      const work = queue.shift();
      if (queue.length > 0) scheduleNext();
      work?.();
    }),
  );
}

/** Runs work after all work that is already waiting. The returned function cancels it. A hidden page waits. */
export function queueFrame(work: () => void): () => void {
  queue.push(work);
  if (queue.length === 1) scheduleNext();
  return () => {
    const position = queue.indexOf(work);
    if (position > 0) queue.splice(position, 1);
    else if (position === 0) queue[0] = () => {}; // its frame has been requested already
  };
}
