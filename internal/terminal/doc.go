// Package terminal writes what people read: tables that fit a screen, and text from elsewhere that can do the screen no harm.
package terminal
