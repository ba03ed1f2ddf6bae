// The canvases of the heap map.
import { useEffect, useRef, useState } from "preact/hooks";

/** A canvas and its current width. */
export function useWidth(): [preact.RefObject<HTMLCanvasElement | null>, number] {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [canvas, width];
}

export function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
