// Colours of functions, by origin or by change.
import { hash } from "../model/hash.ts";
import type { Origin } from "../model/stacks.ts";

// Hue and saturation.
const ORIGIN_COLOURS: Record<Origin, [number, number]> = {
  program: [32, 78],
  library: [205, 62],
  runtime: [0, 0],
};

/**
 * One hue per origin, shades by function. The root of a tree has no origin. Readable under black text in light mode and white text in dark mode. Without
 * a name it is the colour between the shades.
 */
export function originColour(origin: Origin | "", name: string, dark: boolean): string {
  if (!origin) return dark ? "hsl(0 0% 20%)" : "hsl(0 0% 93%)";
  const [hue, saturation] = ORIGIN_COLOURS[origin];
  const shade = name ? (hash(name) % 9) - 4 : 0;
  return dark ? `hsl(${hue} ${saturation * 0.6}% ${30 + shade}%)` : `hsl(${hue} ${saturation}% ${80 + shade}%)`;
}

/** Red for growth, blue for shrinkage, more saturated for a larger relative change. */
export function changeColour(now: number, before: number, dark: boolean): string {
  const change = now - before;
  const share = Math.min(1, Math.abs(change) / Math.max(1, now, before));
  const hue = change >= 0 ? 8 : 212;
  return dark
    ? `hsl(${hue} ${Math.round(share * 70)}% 34%)`
    : `hsl(${hue} ${Math.round(share * 85)}% ${90 - share * 22}%)`;
}

/**
 * By share of the total: from the page's own colour to red. Readable under black text in light mode and white
 * text in dark mode.
 */
export function shareColour(share: number, dark: boolean): string {
  const strength = Math.sqrt(Math.min(1, Math.max(0, share)));
  return dark
    ? `hsl(14 ${Math.round(strength * 60)}% ${24 + Math.round(strength * 8)}%)`
    : `hsl(14 ${Math.round(20 + strength * 70)}% ${96 - Math.round(strength * 24)}%)`;
}
