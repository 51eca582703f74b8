package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// quotaDigest changes when what quotas allow or what is used of them does. Where they may not be read it changes each minute, so that
// what waits for them is tried so often.
func quotaDigest(quotas []unstructured.Unstructured, denied error) string {
	if denied != nil {
		return strconv.FormatInt(time.Now().Unix()/60, 10)
	}
	all := map[string]any{}
	for _, q := range quotas {
		hard, _, _ := unstructured.NestedMap(q.Object, "spec", "hard")
		status, _, _ := unstructured.NestedMap(q.Object, "status")
		all[q.GetName()] = []any{hard, status}
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		raw, _ := json.Marshal([]any{name, all[name]}) // it was JSON
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// leftOf is what a quota leaves of each resource that it limits.
func leftOf(quota *unstructured.Unstructured) map[string]resource.Quantity {
	amounts := func(field string) map[string]resource.Quantity {
		texts, _, _ := unstructured.NestedStringMap(quota.Object, "status", field)
		all := map[string]resource.Quantity{}
		for name, text := range texts {
			if q, err := resource.ParseQuantity(text); err == nil {
				all[name] = q
			}
		}
		return all
	}
	left, used := amounts("hard"), amounts("used")
	for name, q := range left {
		q.Sub(used[name])
		left[name] = q
	}
	return left
}

// isRoomier reports whether more of anything is left than was, or something is limited no more.
func isRoomier(was, now map[string]resource.Quantity) bool {
	for name, before := range was {
		if after, limited := now[name]; !limited || after.Cmp(before) > 0 {
			return true
		}
	}
	return false
}
