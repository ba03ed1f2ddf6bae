// Command notices writes THIRD_PARTY.md: the licences of the software that the seemalloc binary contains. These are the
// Go standard library, the modules that tool/ imports, and the packages that esbuild bundles into the page. Run it from
// anywhere in the repository after a change to go.mod or web/package.json, with web/node_modules installed; a test
// fails while a name or version is missing.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"seemalloc/tool/gen/repo"
)

const document = "THIRD_PARTY.md"

func main() { repo.Main("notices", document, generate) }

// component is third-party software. folder is the directory with its licence.
type component struct{ name, version, dir string }

func (c component) title() string { return strings.TrimSpace(c.name + " " + c.version) }

func generate(root string) (string, error) {
	all, err := components(root)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString("# Third-party software in the seemalloc tool\n\n" +
		"The libraries (libseemalloc*.so, libseemalloc.a) contain no third-party code. The tool `seemalloc` contains the software below.\n" +
		"This file is written by `go run ./tool/gen/notices`.\n")
	for _, c := range all {
		licence, err := licenceOf(c)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "\n## %s\n\n%s\n", c.title(), indented(licence))
	}
	return text.String(), nil
}

// components returns all components, sorted by name. The directories of the page's packages exist only after `npm ci`.
func components(root string) ([]component, error) {
	modules, err := goModules(root)
	if err != nil {
		return nil, err
	}
	packages, err := pagePackages(root)
	if err != nil {
		return nil, err
	}
	all := append(modules, packages...)
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	goRoot, err := goCommand(root, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	// Without the version, because any toolchain that go.mod allows can build the tool.
	return append([]component{{"The Go standard library", "", strings.TrimSpace(goRoot)}}, all...), nil
}

func goCommand(root string, arguments ...string) (string, error) {
	command := exec.Command("go", arguments...)
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("go %s: %s", arguments[0], strings.TrimSpace(string(failed.Stderr)))
	}
	return string(out), err
}

func goModules(root string) ([]component, error) {
	out, err := goCommand(root, "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}", "./tool")
	if err != nil {
		return nil, err
	}
	var modules []component
	seen := map[string]bool{}
	for _, line := range strings.Split(out, "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || seen[fields[0]] {
			continue
		}
		seen[fields[0]] = true
		modules = append(modules, component{fields[0], fields[1], fields[2]})
	}
	return modules, nil
}

// pagePackages returns the direct and indirect dependencies in web/package.json.
func pagePackages(root string) ([]component, error) {
	text, err := os.ReadFile(filepath.Join(root, "web/package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version string `json:"version"`
			Dev     bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("web/package-lock.json: %w", err)
	}
	var packages []component
	for path, p := range lock.Packages {
		if name, ok := strings.CutPrefix(path, "node_modules/"); ok && !p.Dev {
			packages = append(packages, component{name, p.Version, filepath.Join(root, "web", path)})
		}
	}
	return packages, nil
}

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licenceOf concatenates the licence, copying, notice and patent files in the component's directory.
func licenceOf(c component) (string, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.title(), err)
	}
	var texts []string
	for _, entry := range entries {
		if entry.IsDir() || !licenceName.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(c.dir, entry.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, string(text))
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("%s: no licence in %s", c.title(), c.dir)
	}
	return strings.Join(texts, "\n"), nil
}

// indented formats any text as a code block.
func indented(text string) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("    "+line, " \t\f")
	}
	return strings.Join(lines, "\n")
}
