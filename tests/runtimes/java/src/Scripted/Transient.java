package Scripted;

public final class Transient extends RuntimeException {
    public Transient(String text) {
        super(text);
    }
}
