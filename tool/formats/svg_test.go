package formats

import (
	"encoding/xml"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type svgPicture struct {
	Texts []string `xml:"text"`
	Boxes []struct {
		Title string   `xml:"title"`
		Texts []string `xml:"text"`
		Rect  struct {
			X     float64 `xml:"x,attr"`
			Y     float64 `xml:"y,attr"`
			Width float64 `xml:"width,attr"`
		} `xml:"rect"`
	} `xml:"g"`
}

func TestSVG(t *testing.T) {
	b := newBuilder("inuse_objects", "inuse_space")
	m := b.mapping(0x1000, 0x9000, 0, "/usr/bin/shop")
	main, load := b.location(m, 0x1100, "main"), b.location(m, 0x1200, `std::map<"a"&b>::load`)
	b.sample([]int64{3, 3 << 20}, 0, load, main)
	b.sample([]int64{1, 1 << 20}, 0, b.location(m, 0x1300, "parse"), main)
	b.sample([]int64{1, -5 << 20}, 0, b.location(m, 0x1400, "shrunk"), main)
	var out strings.Builder
	left, err := ByName("svg").Write(&out, b.p, Options{Index: 1, Source: "shop.pb.gz"})
	if err != nil || left.Rows != 1 || left.Sum != -5<<20 {
		t.Fatalf("%+v, %v", left, err)
	}
	var picture svgPicture
	if err := xml.Unmarshal([]byte(out.String()), &picture); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if len(picture.Texts) == 0 || picture.Texts[0] != "shop.pb.gz: inuse_space, 4.00 MiB" {
		t.Errorf("title %q", picture.Texts)
	}
	var titles []string
	for _, box := range picture.Boxes {
		titles = append(titles, box.Title)
	}
	want := []string{"main: 4.00 MiB, 100.00% (shop)", `std::map<"a"&b>::load: 3.00 MiB, 75.00% (shop)`, "parse: 1.00 MiB, 25.00% (shop)"}
	if !slices.Equal(titles, want) {
		t.Fatalf("boxes\n%q\ninstead of\n%q", titles, want)
	}
	outer, first, second := picture.Boxes[0].Rect, picture.Boxes[1].Rect, picture.Boxes[2].Rect
	if first.Y <= outer.Y || first.Y != second.Y || first.X != outer.X || math.Abs(second.X-first.X-first.Width) > 0.02 ||
		math.Abs(first.Width+second.Width-outer.Width) > 0.02 || math.Abs(first.Width-3*second.Width) > 0.05 {
		t.Errorf("%+v", picture.Boxes)
	}
	if texts := picture.Boxes[0].Texts; len(texts) != 1 || texts[0] != "main" {
		t.Errorf("text %q", texts)
	}
}

// Boxes lie inside the box of their caller, also in profiles with many functions and deep recursion.
func TestSVGOfRandomProfiles(t *testing.T) {
	r := random(t)
	for range 25 {
		p := sampled(r, 1<<19)
		var positive int64
		for _, s := range p.Sample {
			positive += max(s.Value[3], 0)
		}
		var out strings.Builder
		if _, err := ByName("svg").Write(&out, p, Options{Index: 3}); err != nil {
			t.Fatal(err)
		}
		var picture svgPicture
		if err := xml.Unmarshal([]byte(out.String()), &picture); err != nil {
			t.Fatal(err)
		}
		sums := map[string]float64{} // of the widths by row
		for _, box := range picture.Boxes {
			sums[strconv.FormatFloat(box.Rect.Y, 'f', 1, 64)] += box.Rect.Width
			if box.Rect.X < svgMargin-0.01 || box.Rect.X+box.Rect.Width > svgWidth-svgMargin+0.01 {
				t.Fatalf("outside: %+v", box)
			}
		}
		for y, sum := range sums {
			if sum > svgWidth-2*svgMargin+0.01*float64(len(picture.Boxes)) {
				t.Fatalf("row %s is %g wide", y, sum)
			}
		}
		if positive > 0 && len(picture.Boxes) == 0 {
			t.Fatal("no boxes")
		}
	}
}

func TestNamesFitTheirBoxes(t *testing.T) {
	for _, c := range []struct {
		name  string
		width float64
		want  string
	}{{"main", 100, "main"}, {"main", 6 + 4*svgCharacter, "main"}, {"parse_all", 6 + 5.5*svgCharacter, "pars…"}, {"main", 20, ""}, {"größe", 6 + 4*svgCharacter, "grö…"}} {
		if got := fitting(c.name, c.width); got != c.want {
			t.Errorf("%s in %g: %q instead of %q", c.name, c.width, got, c.want)
		}
	}
}
