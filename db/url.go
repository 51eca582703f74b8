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
	raw = strings.TrimSpace(raw) // as read from a file
	if raw == "" {
		return nil, fmt.Errorf("%w is not set: %s", ErrURL, urlForm)
	}
	rest, isURL := cutScheme(raw)
	if !isURL && !strings.Contains(raw, "=") {
		return nil, fmt.Errorf("%w does not begin with postgres://: %s", ErrURL, urlForm)
	}
	// A password with a / or a second @ in it would be taken for parts of the address, and shown as such.
	if i := strings.IndexAny(rest, "@/"); isURL && i >= 0 {
		var user string
		if rest[i] == '@' {
			user, _, _ = strings.Cut(rest[:i], ":")
			rest = rest[i+1:]
		}
		if strings.Contains(rest, "@") || strings.Contains(user, "?") {
			return nil, fmt.Errorf("%w has an @ where none can be: everywhere but before the host write @ as %%40, "+
				"and in user and password also / as %%2F, ? as %%3F, : as %%3A and %% as %%25", ErrURL)
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
	for _, pair := range strings.Split(u.RawQuery, "&") {
		if strings.Contains(pair, "?") || strings.Count(pair, "=") > 1 {
			return false // a separator is missing, and who knows of what this is the value
		}
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
	for key, values := range q {
		if strings.Contains(strings.ToLower(key), "password") {
			secrets = append(secrets, values...)
		}
	}
	for _, s := range secrets {
		if s != "" && (strings.Contains(text, s) || strings.Contains(text, url.QueryEscape(s))) {
			return false
		}
	}
	return true
}
