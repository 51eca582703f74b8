package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"berth/internal/postgres"
)

func stat(pid string, f ...int) (sum int, ppid string) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, ""
	}
	s := string(b)
	fs := strings.Fields(s[strings.LastIndex(s, ")")+2:])
	for _, i := range f {
		n, _ := strconv.Atoi(fs[i-3])
		sum += n
	}
	return sum, fs[1]
}

func cpu(pm int) (self, pg int) {
	self, _ = stat("self", 14, 15)
	p := strconv.Itoa(pm)
	pg, _ = stat(p, 14, 15, 16, 17)
	ds, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range ds {
		n, pp := stat(filepath.Base(d), 14, 15)
		if pp == p {
			pg += n
		}
	}
	return
}

func TestCPU(t *testing.T) {
	ctx := context.Background()
	s, err := postgres.Start(ctx, postgres.Options{Temporary: true, Name: "bench", Durable: os.Getenv("DURABLE") != "", Settings: Settings})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := newRig(ctx, s.URL("postgres"), 20000)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var a, b, c, d int
		noop, err := r.drain(ctx, map[bool]int{true: 100, false: 20000}[os.Getenv("PATHONLY") != ""], func(n int) error { err := r.noops(ctx, n); a, b = cpu(s.Pid()); return err })
		c, d = cpu(s.Pid())
		fmt.Println("noop", noop, err, "us/job go", float64(c-a)*10000/20000, "pg", float64(d-b)*10000/20000)
		x := float64(c-a+d-b) / 20000
		path, err := r.drain(ctx, 5000, func(n int) error {
			ids := make([]uuid.UUID, n)
			for i := range ids {
				ids[i] = uuid.New()
			}
			err := r.create(ctx, ids...)
			a, b = cpu(s.Pid())
			return err
		})
		c, d = cpu(s.Pid())
		fmt.Println("path", path, err, "us/job go", float64(c-a)*10000/5000, "pg", float64(d-b)*10000/5000, "cpu ratio", x/(float64(c-a+d-b)/5000), "rate ratio", path/noop)
	}
}
