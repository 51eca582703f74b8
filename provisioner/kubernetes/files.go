package kubernetes

import (
	"fmt"
	"io"
	"os"
	"regexp"

	"berth/provisioner"
)

const maxTemplate = 1 << 20 // bytes of a template

// keyForm is what a key of template_paths may be: it becomes the beginning of a name, before a dash and 32 characters.
var keyForm = regexp.MustCompile(`\A[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*\z`)

const maxKey = 30

// readFiles reads the templates that the spec names and reports whether all could be read.
func (s *Spec) readFiles(paths *provisioner.Spec) bool {
	all := true
	first := map[os.FileInfo]string{}
	for _, key := range paths.Keys() {
		path := paths.String(key)
		if path == "" {
			all = false // reported
			continue
		}
		if !keyForm.MatchString(key) || len(key) > maxKey {
			paths.Fault(key, "has a key that can be no part of a name", fmt.Sprintf("use lower-case letters and digits, in words joined by single _ or -, at most %d characters", maxKey))
			all = false
			continue
		}
		info, raw, why := readTemplate(path)
		if why != "" {
			paths.Fault(key, why, "")
			all = false
			continue
		}
		if other := sameFile(first, info); other != "" {
			paths.Fault(key, "is the same file as template_paths."+other, "name each file once")
			all = false
			continue
		}
		first[info] = key
		f, flaws := parseFile(key, path, raw)
		for _, one := range flaws {
			paths.Fault(key, (&file{path: path}).text(one), one.remedy)
		}
		if len(flaws) == 0 {
			s.files = append(s.files, f)
		}
		all = all && len(flaws) == 0
	}
	return all
}

// readTemplate reads a file; why says why it could not.
func readTemplate(path string) (info os.FileInfo, raw []byte, why string) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, "can not be read: " + reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, "is not a file" // to open a pipe would wait for whoever writes to it
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, "can not be read: " + reason(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err = io.ReadAll(io.LimitReader(f, maxTemplate+1))
	switch {
	case err != nil:
		return nil, nil, "can not be read: " + reason(err)
	case len(raw) > maxTemplate:
		return nil, nil, fmt.Sprintf("is longer than %d bytes", maxTemplate)
	}
	return info, raw, ""
}

func sameFile(first map[os.FileInfo]string, info os.FileInfo) string {
	for other, key := range first {
		if os.SameFile(other, info) {
			return key
		}
	}
	return ""
}
