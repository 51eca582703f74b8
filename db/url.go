package db

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrURL says that DATABASE_URL is not the address of a database. The text around it says how it has to look.
var ErrURL = errors.New("DATABASE_URL")

const urlForm = "write it as postgres://user:password@host:5432/database?sslmode=require"

// parse reads a URL. Its errors may show it, but never its password: where it is not certain which part that is, they show
// nothing of it.
func parse(raw string) (*pgxpool.Config, error) {
	if strings.TrimSpace(raw) == "" {
		return nil, fmt.Errorf("%w is not set: %s", ErrURL, urlForm)
	}
	rest, isURL := cutScheme(raw)
	if !isURL && !strings.Contains(raw, "=") {
		return nil, fmt.Errorf("%w does not begin with postgres://: %s", ErrURL, urlForm)
	}
	// A password with a / or a second @ in it would be taken for parts of the address, and shown as such.
	if i := strings.IndexAny(rest, "@/"); isURL && i >= 0 {
		if rest[i] == '@' {
			rest = rest[i+1:]
		}
		if strings.Contains(rest, "@") {
			return nil, fmt.Errorf("%w has an @ where none can be: in user and password write @ as %%40, / as %%2F, : as %%3A and %% as %%25", ErrURL)
		}
	}
	config, err := pgxpool.ParseConfig(raw)
	if err == nil {
		return config, nil
	}
	said := strings.Join(strings.Fields(err.Error()), " ")
	if !isURL || !printable(said, raw) {
		return nil, fmt.Errorf("%w cannot be read (what is wrong is not shown, for it may be part of the password): %s", ErrURL, urlForm)
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrURL, said, urlForm) // not wrapped: the error holds the whole URL
}

func cutScheme(raw string) (rest string, ok bool) {
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok = strings.CutPrefix(raw, scheme); ok {
			return rest, true
		}
	}
	return raw, false
}

// printable says whether a text is certain to hold no secret of a URL.
func printable(text, raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return false
	}
	var secrets []string
	if password, ok := u.User.Password(); ok {
		_, escaped, _ := strings.Cut(u.User.String(), ":")
		secrets = append(secrets, password, escaped)
	}
	for _, key := range []string{"password", "sslpassword"} {
		for _, v := range q[key] {
			secrets = append(secrets, v, url.QueryEscape(v))
		}
	}
	for _, s := range secrets {
		if s != "" && strings.Contains(text, s) {
			return false
		}
	}
	return true
}
