// "save picture": saves a drawing as SVG or PNG.
import { useState } from "preact/hooks";
import { type Picture, savePng, saveSvg } from "./save.ts";

interface Props {
  name: string; // of the file
  of?: string; // for screen readers, if there are several
  draw: () => Picture;
  pixels?: boolean; // PNG only, because it is drawn on a canvas
}

export function SavePicture({ name, of, draw, pixels = false }: Props) {
  const [problem, setProblem] = useState("");
  const save = async (as: "SVG" | "PNG") => {
    try {
      const { svg, width, height } = draw();
      if (as === "SVG") saveSvg(svg, name);
      else await savePng(svg, width, height, name);
      setProblem("");
    } catch (failure) {
      setProblem(failure instanceof Error ? failure.message : String(failure));
    }
  };
  const button = (as: "SVG" | "PNG") => (
    <button aria-label={of && `${as} of ${of}`} title="save this picture" onClick={() => void save(as)}>
      {as}
    </button>
  );
  return (
    <span class="save">
      {!of && "save picture "}
      {!pixels && button("SVG")} {button("PNG")}
      {problem && (
        <span class="problem" role="alert">
          {" "}
          {problem}
        </span>
      )}
    </span>
  );
}
