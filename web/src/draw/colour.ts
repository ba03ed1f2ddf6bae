// Colours of functions, by module or by change.
import { hash } from "../model/hash.ts";

/** One hue per module, shades by function. Readable under black text in light mode and white text in dark mode. */
export function functionColour(module: string, name: string, dark: boolean): string {
  const hue = hash(module) % 360;
  const shade = (hash(name) % 9) - 4;
  return dark ? `hsl(${hue} 34% ${30 + shade}%)` : `hsl(${hue} 58% ${80 + shade}%)`;
}

/** The colour of a module, between the shades of its functions. */
export function moduleColour(module: string, dark: boolean): string {
  const hue = hash(module) % 360;
  return dark ? `hsl(${hue} 34% 30%)` : `hsl(${hue} 58% 80%)`;
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
