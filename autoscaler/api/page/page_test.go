// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func get(name string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, name, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	w.Header().Set("Cache-Control", "no-store") // as for the API's answers
	Handler().ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	page := get("/")
	must.Eq(t, http.StatusOK, page.Code)
	must.Eq(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
	must.StrContains(t, page.Body.String(), "<title>Kolo</title>")
	must.StrNotContains(t, page.Header().Get("Content-Security-Policy"), "unsafe")
	must.StrContains(t, page.Header().Get("Content-Security-Policy"), "script-src 'self'")

	tag := page.Header().Get("ETag")
	must.Eq(t, "no-cache", page.Header().Get("Cache-Control"))
	again := get("/", "If-None-Match", tag)
	must.Eq(t, http.StatusNotModified, again.Code)
	must.Zero(t, again.Body.Len())
	must.Eq(t, http.StatusOK, get("/", "If-None-Match", `"old"`).Code)

	for _, missing := range []string{"/page/", "/page/x", "/page/../page.go", "/page/lib/LICENSE.preact", "/page/lib"} {
		must.Eq(t, http.StatusNotFound, get(missing).Code, must.Sprint(missing))
	}
	must.Eq(t, "text/javascript; charset=utf-8", get("/page/lib/preact.mjs").Header().Get("Content-Type"))
}

var used = regexp.MustCompile(`(?:from |import |src="|href=")["']?([^"'\s>#]+)["']`)

// Everything that a file uses is served by the autoscaler: the page works offline.
func TestFilesUseOnlyEachOther(t *testing.T) {
	each(t, func(name, text string) {
		if strings.HasPrefix(name, "static/lib/") || path.Ext(name) == ".md" {
			return
		}
		must.StrNotContains(t, strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, ""), "://", must.Sprint(name))
		must.False(t, regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`).MatchString(text), must.Sprint(name))
		must.False(t, regexp.MustCompile(`<script>|<style>|\sstyle="|\son[a-z]+="`).MatchString(text) && path.Ext(name) == ".html", must.Sprint(name))
		for _, m := range used.FindAllStringSubmatch(text, -1) {
			target := m[1]
			if strings.HasPrefix(target, ".") {
				target = path.Join(Prefix, path.Dir(strings.TrimPrefix(name, "static/")), target)
			}
			must.Eq(t, http.StatusOK, get("/"+strings.TrimPrefix(target, "/")).Code, must.Sprintf("%s uses %s", name, m[1]))
		}
	})
}

// The libraries are the released files that static/lib/README.md records.
func TestLibraries(t *testing.T) {
	readme, err := files.ReadFile("static/lib/README.md")
	must.NoError(t, err)
	recorded := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| `([0-9a-f]{64})` \\|$").FindAllStringSubmatch(string(readme), -1) {
		recorded[m[1]] = m[2]
	}
	each(t, func(name, text string) {
		file, ok := strings.CutPrefix(name, "static/lib/")
		if !ok || file == "README.md" {
			return
		}
		sum := sha256.Sum256([]byte(text))
		must.Eq(t, hex.EncodeToString(sum[:]), recorded[file], must.Sprint(file))
		delete(recorded, file)
		if path.Ext(file) == ".mjs" { // a release finds licences by this name
			_, err := files.ReadFile("static/lib/LICENSE." + strings.TrimSuffix(file, ".mjs"))
			must.NoError(t, err)
		}
	})
	must.MapEmpty(t, recorded, must.Sprint("recorded and not there"))
}

func each(t *testing.T, visit func(name, text string)) {
	must.NoError(t, fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		visit(name, string(text))
		return err
	}))
}
