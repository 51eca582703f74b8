package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"berth/provisioner"
)

const (
	readsHost = "reads the machine that the worker runs on"
	differs   = "gives another result each time, so that every look would find a change"
)

// refused are the functions of sprig that templates do not have, and why.
var refused = map[string]string{
	"env": readsHost, "expandenv": readsHost, "getHostByName": readsHost,

	"now": differs, "ago": differs, "durationRound": differs, "uuidv4": differs, "shuffle": differs,
	"randAlphaNum": differs, "randAlpha": differs, "randAscii": differs, "randNumeric": differs, "randBytes": differs, "randInt": differs,
	"bcrypt": differs, "htpasswd": differs, "encryptAES": differs,
	"genPrivateKey": differs, "genCA": differs, "genCAWithKey": differs, "genSelfSignedCert": differs, "genSelfSignedCertWithKey": differs,
	"genSignedCert": differs, "genSignedCertWithKey": differs,

	// They take what is no time for now, and go by the clock's zone.
	"date": differs, "date_in_zone": differs, "dateInZone": differs, "date_modify": differs, "dateModify": differs,
	"must_date_modify": differs, "mustDateModify": differs, "htmlDate": differs, "htmlDateInZone": differs,
	"toDate": differs, "mustToDate": differs, "unixEpoch": differs,
}

// mapFunctions are those of sprig that want a map[string]any. Annotations and names are maps of text; they take them too.
var mapFunctions = []string{"get", "hasKey", "pick", "omit", "pluck", "dig", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"}

// functions are what templates can call.
var functions = makeFunctions()

func makeFunctions() template.FuncMap {
	all := sprig.TxtFuncMap()
	for name := range refused {
		all[name] = func(...any) (string, error) { return "", errors.ErrUnsupported } // never called: a fault says so before
	}
	for _, name := range mapFunctions {
		all[name] = widened(all[name])
	}
	all["index"] = index
	all["squote"] = squote
	all["keys"] = sortedKeys
	all["values"] = sortedValues
	all["labelValue"] = provisioner.LabelValue
	return all
}

// widened makes a function take maps of text where it wants maps of anything.
func widened(f any) func(args ...any) (any, error) {
	call := reflect.ValueOf(f)
	t := call.Type()
	return func(args ...any) (result any, err error) {
		if len(args) < t.NumIn()-1 || !t.IsVariadic() && len(args) != t.NumIn() {
			return nil, fmt.Errorf("wants %d arguments and has %d", t.NumIn(), len(args))
		}
		in := make([]reflect.Value, len(args))
		for i, a := range args {
			want := t.In(min(i, t.NumIn()-1))
			if t.IsVariadic() && i >= t.NumIn()-1 {
				want = want.Elem()
			}
			v := reflect.ValueOf(loose(a))
			if !v.IsValid() {
				v = reflect.Zero(want)
			}
			if !v.Type().AssignableTo(want) {
				return nil, fmt.Errorf("argument %d is a %s and not a %s", i+1, v.Type(), want)
			}
			in[i] = v
		}
		out := call.Call(in)
		if len(out) == 2 && !out[1].IsNil() {
			return nil, out[1].Interface().(error)
		}
		return out[0].Interface(), nil
	}
}

// loose makes a map of anything of a map of text.
func loose(v any) any {
	r := reflect.ValueOf(v)
	if !r.IsValid() || r.Kind() != reflect.Map || r.Type().Key().Kind() != reflect.String || r.Type().Elem().Kind() != reflect.String {
		return v
	}
	m := make(map[string]any, r.Len())
	for i := r.MapRange(); i.Next(); {
		m[i.Key().String()] = i.Value().String()
	}
	return m
}

var (
	errIndexNothing = errors.New("index of nothing")
	errNotThere     = errors.New("is not there")
)

// index is that of text/template, but a key that is not there is an error where that prints <no value>. An annotation that is not
// there is empty: which ones there are is not up to the template.
func index(item any, keys ...any) (any, error) {
	v := reflect.ValueOf(item)
	for _, key := range keys {
		for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
			v = v.Elem()
		}
		if !v.IsValid() {
			return nil, errIndexNothing
		}
		k := reflect.ValueOf(key)
		switch v.Kind() {
		case reflect.Map:
			if !k.IsValid() || !k.Type().AssignableTo(v.Type().Key()) {
				return nil, fmt.Errorf("%v is no key of a %s", key, v.Type())
			}
			found := v.MapIndex(k)
			switch {
			case found.IsValid():
				v = found
			case v.Type() == reflect.TypeFor[Annotations]():
				v = reflect.ValueOf("")
			default:
				return nil, fmt.Errorf("%q %w: %s", fmt.Sprint(key), errNotThere, known(v))
			}
		case reflect.Slice, reflect.Array, reflect.String:
			if !k.IsValid() || !k.CanInt() && !k.CanUint() {
				return nil, fmt.Errorf("%v is no position", key)
			}
			var at int
			if k.CanInt() {
				at = int(k.Int())
			} else {
				at = int(k.Uint())
			}
			if at < 0 || at >= v.Len() {
				return nil, fmt.Errorf("position %v of %d %w", key, v.Len(), errNotThere)
			}
			v = v.Index(at)
		default:
			return nil, fmt.Errorf("a %s has no index", v.Type())
		}
	}
	if !v.IsValid() {
		return nil, errIndexNothing
	}
	return v.Interface(), nil
}

func known(m reflect.Value) string {
	var keys []string
	for _, k := range m.MapKeys() {
		keys = append(keys, fmt.Sprint(k.Interface()))
	}
	slices.Sort(keys)
	return "there are " + strings.Join(keys, ", ")
}

// squote puts text into single quotes of YAML. That of sprig leaves those inside as they are.
func squote(values ...any) string {
	var quoted []string
	for _, v := range values {
		if v != nil {
			quoted = append(quoted, "'"+strings.ReplaceAll(fmt.Sprint(v), "'", "''")+"'")
		}
	}
	return strings.Join(quoted, " ")
}

// sortedKeys and sortedValues are those of sprig, in an order that is always the same.
func sortedKeys(dicts ...any) ([]string, error) {
	var keys []string
	for _, d := range dicts {
		m, ok := loose(d).(map[string]any)
		if !ok {
			return nil, fmt.Errorf("a %T has no keys", d)
		}
		keys = append(keys, slices.Sorted(maps.Keys(m))...)
	}
	return keys, nil
}

func sortedValues(dict any) ([]any, error) {
	m, ok := loose(dict).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a %T has no values", dict)
	}
	var values []any
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	return values, nil
}
