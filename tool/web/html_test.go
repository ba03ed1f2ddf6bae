package web

import (
	"strings"
	"testing"
	"time"

	"seemalloc/tool/formats"
)

func TestHTMLIsAReportOfTheProfile(t *testing.T) {
	format := formats.ByName("html")
	if format == nil || formats.ByExtension("x.html") != format {
		t.Fatal("the format is not registered")
	}
	p := heapOf(time.Unix(1, 0), map[string]int64{"main": 4096})
	var page strings.Builder
	if _, err := format.Write(&page, p.Copy(), formats.Options{Source: "shop.pb.gz"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!doctype html>", "shop.pb.gz"} {
		if !strings.Contains(strings.ToLower(page.String()), want) {
			t.Errorf("no %q in the page of %d bytes", want, page.Len())
		}
	}
	p.Sample[0].Value[0] = -1
	if _, err := format.Write(&page, p, formats.Options{Source: "shop.pb.gz"}); err == nil || !strings.Contains(err.Error(), "seemalloc report") {
		t.Errorf("of a difference: %v", err)
	}
}
