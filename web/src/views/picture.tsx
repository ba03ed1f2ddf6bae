// "save picture": what is drawn, as SVG or PNG.
import { useState } from "preact/hooks";
import { savePng, saveSvg } from "../draw/save.ts";

export interface Drawn {
  svg: string;
  width: number;
  height: number;
}

export function SavePicture({ name, draw }: { name: string; draw: () => Drawn }) {
  const [problem, setProblem] = useState("");
  const png = async () => {
    try {
      const { svg, width, height } = draw();
      await savePng(svg, width, height, name);
      setProblem("");
    } catch (failure) {
      setProblem(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <span>
      save picture <button onClick={() => saveSvg(draw().svg, name)}>SVG</button> <button onClick={() => void png()}>PNG</button>
      {problem && <span class="problem" role="alert"> {problem}</span>}
    </span>
  );
}
