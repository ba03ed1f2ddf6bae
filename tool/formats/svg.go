package formats

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// The layout of the flame graph, in pixels.
const (
	svgWidth     = 1200.0
	svgRow       = 18.0
	svgMargin    = 10.0
	svgTitle     = 44.0 // height of the title above the first row
	svgCharacter = 6.6  // width of a character of the font
	svgMinimum   = 0.3  // width of the narrowest box
)

// flameBox is a function of the call tree. The root is the whole profile.
type flameBox struct {
	name, module string
	value        int64 // of the function and the functions that it calls
	callees      map[string]*flameBox
}

func (b *flameBox) callee(f frame) *flameBox {
	next := b.callees[f.function]
	if next == nil {
		next = &flameBox{name: f.function, module: filepath.Base(f.module), callees: map[string]*flameBox{}}
		b.callees[f.function] = next
	}
	return next
}

// writeSVG draws one sample type as a flame graph: the outermost functions at the top, the largest callee first. The
// picture contains no scripts: viewers show the full name and the value of a box as its tooltip.
func writeSVG(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	root := &flameBox{callees: map[string]*flameBox{}}
	var left Omitted
	depth := 0
	for _, sample := range p.Sample {
		value := sample.Value[o.Index]
		left.add(value)
		if value <= 0 {
			continue
		}
		stack := stackOf(sample)
		depth = max(depth, len(stack))
		root.value += value
		box := root
		for _, f := range slices.Backward(stack) {
			box = box.callee(f)
			box.value += value
		}
	}
	unit := p.SampleType[o.Index].Unit
	out := bufio.NewWriter(w)
	height := svgTitle + float64(depth)*svgRow + svgMargin
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="11">`+"\n",
		svgWidth, height, svgWidth, height)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(out, `<text x="%g" y="18" font-size="14">%s: %s, %s</text>`+"\n", svgMargin, escaped(cmp.Or(o.Source, "profile")),
		escaped(p.SampleType[o.Index].Type), escaped(report.Amount(root.value, unit)))
	fmt.Fprintf(out, `<text x="%g" y="34" fill="#555">outermost functions at the top; a colour is a program or library</text>`+"\n", svgMargin)
	if root.value > 0 {
		drawing := svgDrawing{out, (svgWidth - 2*svgMargin) / float64(root.value), float64(root.value), unit}
		drawing.callees(root, svgMargin, svgTitle)
	}
	fmt.Fprintln(out, "</svg>")
	return left, out.Flush()
}

type svgDrawing struct {
	out   io.Writer
	scale float64 // pixels per unit
	total float64
	unit  string
}

func (d svgDrawing) callees(of *flameBox, x, y float64) {
	boxes := make([]*flameBox, 0, len(of.callees))
	for _, box := range of.callees {
		boxes = append(boxes, box)
	}
	slices.SortFunc(boxes, func(a, b *flameBox) int {
		return cmp.Or(cmp.Compare(b.value, a.value), strings.Compare(a.name, b.name))
	})
	for _, box := range boxes {
		width := float64(box.value) * d.scale
		if width < svgMinimum {
			return // the others are narrower
		}
		d.box(box, x, y, width)
		d.callees(box, x, y+svgRow)
		x += width
	}
}

func (d svgDrawing) box(b *flameBox, x, y, width float64) {
	fmt.Fprintf(d.out, `<g><title>%s: %s, %s%s</title><rect x="%.2f" y="%.1f" width="%.2f" height="%.1f" fill="%s" stroke="#fff" stroke-width="0.5"/>`,
		escaped(b.name), escaped(report.Amount(b.value, d.unit)), report.Percent(float64(b.value), d.total), escaped(inModule(b.module)), x, y, width, svgRow-1, boxColour(b))
	if text := fitting(b.name, width); text != "" {
		fmt.Fprintf(d.out, `<text x="%.2f" y="%.1f">%s</text>`, x+3, y+svgRow-6, escaped(text))
	}
	fmt.Fprintln(d.out, "</g>")
}

func inModule(module string) string {
	if module == "" || module == "." {
		return ""
	}
	return " (" + module + ")"
}

// fitting shortens a name to the width of its box: "" if it has no room for three characters.
func fitting(name string, width float64) string {
	room := int((width - 6) / svgCharacter)
	runes := []rune(name)
	switch {
	case room < 3:
		return ""
	case len(runes) <= room:
		return name
	}
	return string(runes[:room-1]) + "…"
}

// boxColour has a hue for each module and a shade for each function. Black text is readable on all of them.
func boxColour(b *flameBox) string {
	return fmt.Sprintf("hsl(%d,65%%,%d%%)", hash(b.module)%360, 70+hash(b.name)%14)
}

func hash(text string) uint32 {
	h := fnv.New32a()
	io.WriteString(h, text) // never fails
	return h.Sum32()
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // never fails
	return b.String()
}
