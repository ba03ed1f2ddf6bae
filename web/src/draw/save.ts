// Saves pictures as files: SVG as drawn, or PNG rendered from it.

function download(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The URL is needed until the download has started.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export interface Picture {
  svg: string;
  width: number;
  height: number;
}

export function escapeXml(text: string): string {
  return text
    .replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`)
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "?");
}

export function saveSvg(svg: string, name: string): void {
  download(new Blob([svg], { type: "image/svg+xml" }), `${name}.svg`);
}

/** Twice the screen's resolution, if a canvas can be that large. */
export async function savePng(svg: string, width: number, height: number, name: string): Promise<void> {
  const maxSize = 16_000;
  const scale = Math.min(2, maxSize / width, maxSize / height);
  const image = new Image();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    await new Promise((resolve, reject) => {
      image.onload = resolve;
      image.onerror = () => reject(new Error("the picture cannot be drawn"));
      image.src = address;
    });
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.max(1, Math.round(height * scale));
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
    if (!blob) throw new Error("the picture is too large for a PNG");
    download(blob, `${name}.png`);
  } finally {
    URL.revokeObjectURL(address);
  }
}
